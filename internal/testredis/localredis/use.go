// SPDX-License-Identifier: Apache-2.0

package localredis

import "fmt"

// Use makes the next Restart start another program: an upgrade of the server, on the same port with the data that it left. It returns an error
// if the server is running.
func (s *Server) Use(binary string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.PID() != 0 {
		return fmt.Errorf("localredis: use %s: %s is running", binary, s.Addr())
	}
	s.cfg.Binary = binary
	return nil
}
