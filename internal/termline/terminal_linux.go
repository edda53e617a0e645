// SPDX-License-Identifier: Apache-2.0

package termline

import "golang.org/x/sys/unix"

const getTermios = unix.TCGETS
