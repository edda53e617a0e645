// SPDX-License-Identifier: Apache-2.0

// Package tail keeps the end of what a process says, which may say much.
package tail

// Writer keeps the last Max bytes that were written to it. It is not safe for concurrent use.
type Writer struct {
	Max  int
	text []byte
}

func (w *Writer) Write(p []byte) (int, error) {
	w.text = append(w.text, p...)
	w.text = w.text[max(0, len(w.text)-w.Max):]
	return len(p), nil
}

// Bytes returns what is kept, until the next Write.
func (w *Writer) Bytes() []byte { return w.text }

func (w *Writer) String() string { return string(w.text) }
