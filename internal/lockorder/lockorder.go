// SPDX-License-Identifier: Apache-2.0

// Package lockorder records which mutex a goroutine takes while it holds another. Its test builds the packages of the lock with [Mutex]
// in place of each sync.Mutex, by an overlay, so the code that ships is as it was. It sees what the tests do that it runs, through
// callbacks and interfaces too, and it does not see what they do not do.
package lockorder

import (
	"bytes"
	"encoding/json"
	"os"
	"reflect"
	"runtime"
	"slices"
	"sync"
)

// FileVar names the file to which the edges are added.
const FileVar = "REDLOCK_LOCKORDER"

// Edge says that a goroutine took a mutex of To while it held one of From. Mutexes are called by the structs that have them.
type Edge struct {
	From, To string
	Stack    string // of the first time in a process
}

// Mutex is a sync.Mutex of struct S that records.
type Mutex[S any] struct{ mu sync.Mutex }

// Lock implements sync.Locker.
func (m *Mutex[S]) Lock() {
	all.takes(goroutine(), reflect.TypeFor[S]().String())
	m.mu.Lock()
}

// Unlock implements sync.Locker.
func (m *Mutex[S]) Unlock() {
	m.mu.Unlock()
	all.leaves(goroutine(), reflect.TypeFor[S]().String())
}

// goroutine is the number of the calling goroutine, as its stack begins: "goroutine 7 [".
func goroutine() string {
	var b [40]byte
	return string(bytes.Fields(b[:runtime.Stack(b[:], false)])[1])
}

type recorder struct {
	mu   sync.Mutex
	held map[string][]string // by goroutine
	seen map[[2]string]bool
}

var all = recorder{held: make(map[string][]string), seen: make(map[[2]string]bool)}

// takes is called before the mutex is taken: one that waits for ever has told why.
func (r *recorder) takes(by, name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, from := range r.held[by] {
		if edge := [2]string{from, name}; !r.seen[edge] {
			r.seen[edge] = true
			tell(Edge{from, name, stack()})
		}
	}
	r.held[by] = append(r.held[by], name)
}

func (r *recorder) leaves(by, name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	held := r.held[by]
	for i := len(held) - 1; i >= 0; i-- {
		if held[i] == name {
			held = slices.Delete(held, i, i+1)
			break
		}
	}
	if r.held[by] = held; len(held) == 0 {
		delete(r.held, by)
	}
}

func stack() string {
	b := make([]byte, 1<<14)
	return string(b[:runtime.Stack(b, false)])
}

func tell(e Edge) {
	line, err := json.Marshal(e)
	if err == nil {
		var f *os.File
		if f, err = os.OpenFile(os.Getenv(FileVar), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600); err == nil {
			_, err = f.Write(append(line, '\n'))
			_ = f.Close()
		}
	}
	if err != nil {
		panic(err) // an edge that is not told is one that the test does not see
	}
}
