// SPDX-License-Identifier: Apache-2.0

// Package stranger tests the first commands of somebody who has only the published modules: what README and guide say to type, as it stands,
// in empty folders and on real masters. This checkout is what is published.
package stranger
