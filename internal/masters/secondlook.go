// SPDX-License-Identifier: Apache-2.0

package masters

import "time"

// SecondLook says for how long masters that seem to need an operator's word are looked at before an operator is called. When all
// masters were restarted, a client that is in use vouches for them as soon as it is connected again and has looked at them.
type SecondLook struct {
	began time.Duration
	some  bool
}

// GoOn reports whether to look again at now. A client that uses its masters looks at them each second, or four times in a
// maximum TTL.
func (s *SecondLook) GoOn(now, maxTTL time.Duration) bool {
	if !s.some {
		s.began, s.some = now, true
	}
	return now-s.began < min(ActiveLook, maxTTL/4)+LookAgain
}
