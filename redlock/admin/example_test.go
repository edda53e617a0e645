// SPDX-License-Identifier: Apache-2.0

package admin_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/redlock-go/redlock/node"
	"github.com/redlock-go/redlock/node/nodetest"
	"github.com/redlock-go/redlock/redlock"
	"github.com/redlock-go/redlock/redlock/admin"
)

// A list of masters begins, and later one of its masters is replaced.
func Example() {
	ctx := context.Background()
	m1, m2, m3, m4 := nodetest.NewMaster("m1"), nodetest.NewMaster("m2"), nodetest.NewMaster("m3"), nodetest.NewMaster("m4")
	var opened []node.Node // a list that is given by nodes is closed by who made them
	defer func() {
		for _, n := range opened {
			n.Close()
		}
	}()
	list := func(masters ...*nodetest.Master) admin.List { // a program writes admin.List{URLs: urls, Options: options}
		l := admin.List{Options: []redlock.Option{redlock.WithTTL(100 * time.Millisecond), redlock.WithMaxTTL(100 * time.Millisecond)}}
		for _, m := range masters {
			l.Nodes = append(l.Nodes, m.Node(node.Config{}))
		}
		opened = append(opened, l.Nodes...)
		return l
	}
	show := func(l admin.List) {
		status, err := admin.ReadStatus(ctx, l)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(status.Standing)
		for _, m := range status.Masters {
			fmt.Println(" ", m.Name, m.State)
		}
	}

	if err := admin.Init(ctx, list(m1, m2, m3), nil, admin.NothingWasEverLocked); err != nil {
		log.Fatal(err)
	}
	show(list(m1, m2, m3))

	m3.Crash() // for good
	show(list(m1, m2, m3))
	if err := admin.Reconfigure(ctx, list(m1, m2, m3), list(m1, m2, m4), nil); err != nil {
		log.Fatal(err) // m1 and m2 go on with the old list, or another call of Reconfigure goes on with the change
	}
	show(list(m1, m2, m4))

	// Programs with the old list are told.
	old := list(m1, m2, m3)
	_, err := redlock.New(ctx, old.Nodes, old.Options...)
	var epoch *redlock.EpochError
	fmt.Println("start again with the new list:", errors.As(err, &epoch))

	// Output:
	// all vote
	//   m1 votes
	//   m2 votes
	//   m3 votes
	// recovering
	//   m1 votes
	//   m2 votes
	//   m3 down
	// all vote
	//   m1 votes
	//   m2 votes
	//   m4 votes
	// start again with the new list: true
}
