// SPDX-License-Identifier: Apache-2.0

package redissontest

import (
	"embed"
	"io/fs"

	"github.com/redlock-go/redlock/internal/redissontest/wire"
)

//go:embed testdata/wire/*.jsonl
var recordings embed.FS

// Scenes returns the recorded traffic of Redisson 4.7.0, by name. It needs no Java.
func Scenes() ([]wire.Scene, error) {
	dir, err := fs.Sub(recordings, "testdata/wire")
	if err != nil {
		return nil, err
	}
	return wire.Load(dir)
}
