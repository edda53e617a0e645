// SPDX-License-Identifier: Apache-2.0

// Package voucher is the text by which a lease moves to another process: who has the votes, and which masters have given them. It is pure.
package voucher

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/redlock-go/redlock/internal/errs"
	"github.com/redlock-go/redlock/internal/lock/counting"
	"github.com/redlock-go/redlock/internal/protocol"
)

// mark begins every voucher, and says how the rest is to be read.
const mark = "redlock2."

// Voucher is what an adopter must know about a lease that was given away.
type Voucher struct {
	Namespace string `json:"ns,omitempty"`
	Name      string `json:"name"`
	Holder    string `json:"holder"`
	Token     int64  `json:"token"`  // the adopter's is larger
	Voters    []Vote `json:"voters"` // the masters whose vote counts
}

// Vote is one master that has the vote of a voucher.
type Vote struct {
	Master string `json:"m"` // its name
	State  string `json:"s"` // its record state when the voucher was made
}

// Of returns the voucher of a lease with the votes of the masters in the set.
func Of(namespace protocol.Namespace, name, holder string, token int64, nodes []protocol.Node, votes uint64) *Voucher {
	v := &Voucher{Namespace: string(namespace), Name: name, Holder: holder, Token: token}
	for i, n := range nodes {
		if votes>>i&1 == 1 {
			v.Voters = append(v.Voters, Vote{n.Name(), n.VotingState()})
		}
	}
	return v
}

// String is the voucher as text of ASCII letters, digits, '.', '-' and '_'.
func (v *Voucher) String() string {
	text, _ := json.Marshal(v) // strings and numbers
	return mark + base64.RawURLEncoding.EncodeToString(text)
}

// Parse reads the text of a voucher. The error is an errs.ErrConfig.
func Parse(text string) (*Voucher, error) {
	coded, ok := strings.CutPrefix(text, mark)
	v := new(Voucher)
	if !ok {
		return nil, fmt.Errorf("%w: %.40q is no voucher of Lease.Transfer", errs.ErrConfig, text)
	}
	plain, err := base64.RawURLEncoding.DecodeString(coded)
	if err == nil {
		err = json.Unmarshal(plain, v)
	}
	if err == nil && (v.Holder == "" || v.Token <= 0 || v.Token > counting.MaxToken) {
		err = fmt.Errorf("holder %q, token %d", v.Holder, v.Token)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: the voucher is damaged: %w", errs.ErrConfig, err)
	}
	return v, nil
}

// In returns which of the nodes voted, and the record state of each.
func (v *Voucher) In(nodes []protocol.Node) (set uint64, states []string) {
	states = make([]string, len(nodes))
	for i, n := range nodes {
		for _, vote := range v.Voters {
			if n.Name() == vote.Master {
				set |= 1 << i
				states[i] = vote.State
			}
		}
	}
	return set, states
}

// Masters are the names of the masters that voted.
func (v *Voucher) Masters() string {
	names := make([]string, len(v.Voters))
	for i, vote := range v.Voters {
		names[i] = vote.Master
	}
	return strings.Join(names, " ")
}
