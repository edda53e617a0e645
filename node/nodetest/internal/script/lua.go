// SPDX-License-Identifier: Apache-2.0

// Package script runs the scripts of a master in memory as Redis does: Lua 5.1 in gopher-lua, with the globals,
// conversions and errors of Redis 7.
//
// It has no data: what redis.call does is a [Call] of who runs the script, in whose goroutine it is called, and whose
// words are valid until it returns. A script leaves nothing behind for the next one. Scripts may be compiled and run
// in several goroutines; [Loaded] is guarded by who has it.
package script

import (
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"sync"

	lua "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/parse"

	"github.com/redlock-go/redlock/node/nodetest/internal/resp"
)

// Script is a compiled script.
type Script struct {
	// name is the name of its file in node/lua, or "" for any other text.
	name  string
	sha   string
	proto *lua.FunctionProto
}

// scriptName finds a script's name in its first line: "-- votes.lua: ...".
var scriptName = regexp.MustCompile(`^-- (\w+)\.lua\b`)

// compiled holds the script of each text, because a process has many masters and few
// scripts.
var compiled sync.Map

// Compile compiles text, or returns the script that it compiled before.
func Compile(text string) (*Script, error) {
	if s, ok := compiled.Load(text); ok {
		return s.(*Script), nil
	}
	chunk, err := parse.Parse(strings.NewReader(text), "user_script")
	if err != nil {
		return nil, fmt.Errorf("ERR Error compiling script (new function): %w", err)
	}
	proto, err := lua.Compile(chunk, "user_script")
	if err != nil {
		return nil, fmt.Errorf("ERR Error compiling script (new function): %w", err)
	}
	proto.IsVarArg &^= lua.VarArgNeedsArg // otherwise each run allocates a table of no arguments, 3 KB
	sum := sha1.Sum([]byte(text))
	s := &Script{sha: hex.EncodeToString(sum[:]), proto: proto}
	if found := scriptName.FindStringSubmatch(text); found != nil {
		s.name = found[1]
	}
	compiled.Store(text, s)
	return s, nil
}

// machine is a Lua interpreter with the globals that Redis gives to scripts: KEYS, ARGV,
// redis.call and so on. It runs one script at a time.
type machine struct {
	*lua.LState
	call    Call // of the running script
	globals *lua.LTable
	same    *lua.LFunction // returns its argument
	args    []string       // of a command, used again for the next
}

// machines holds the interpreters that no script uses now.
var machines = sync.Pool{New: func() any { return newMachine() }}

// Sizes of an interpreter: the defaults take 260 KB each.
const (
	stackFrames  = 64
	registers    = 1024
	maxRegisters = 1 << 16
)

func newMachine() *machine {
	m := &machine{LState: lua.NewState(lua.Options{
		SkipOpenLibs: true, CallStackSize: stackFrames, RegistrySize: registers, RegistryMaxSize: maxRegisters,
	})}
	for name, open := range map[string]lua.LGFunction{
		lua.BaseLibName: lua.OpenBase, lua.TabLibName: lua.OpenTable,
		lua.StringLibName: lua.OpenString, lua.MathLibName: lua.OpenMath,
	} {
		m.Push(m.NewFunction(open))
		m.Push(lua.LString(name))
		m.Call(1, 0)
	}
	m.same = m.NewFunction(func(*lua.LState) int { return 1 })
	m.SetGlobal("redis", m.SetFuncs(m.NewTable(), map[string]lua.LGFunction{
		"call":         func(*lua.LState) int { return m.command(true) },
		"pcall":        func(*lua.LState) int { return m.command(false) },
		"error_reply":  func(l *lua.LState) int { return oneField(l, "err") },
		"status_reply": func(l *lua.LState) int { return oneField(l, "ok") },
	}))
	m.GetGlobal(lua.MathLibName).(*lua.LTable).RawSetString("huge", lua.LNumber(math.Inf(1))) // gopher-lua has the largest finite number
	m.SetGlobal("tonumber", m.NewFunction(toNumber))
	m.SetGlobal("pcall", m.NewFunction(m.protectedCall))
	for _, name := range []string{"print", "dofile", "loadfile", "require", "module"} {
		m.SetGlobal(name, lua.LNil)
	}
	m.globals = m.Get(lua.GlobalsIndex).(*lua.LTable)
	guard := m.NewTable()
	guard.RawSetString("__newindex", m.NewFunction(func(l *lua.LState) int {
		l.RaiseError("Script attempted to create global variable '%s'", l.Get(2))
		return 0
	}))
	guard.RawSetString("__index", m.NewFunction(func(l *lua.LState) int {
		l.RaiseError("Script attempted to access nonexistent global variable '%s'", l.Get(2))
		return 0
	}))
	m.SetMetatable(m.globals, guard)
	return m
}

// Call is what redis.call does: it runs a command and returns its reply, as package resp has them.
type Call func(name string, args []string) any

// Run runs the script, as EVAL does, and returns what it replies.
func (s *Script) Run(call Call, keys, argv []string) any {
	m := machines.Get().(*machine)
	m.call = call
	m.globals.RawSetString("KEYS", m.list(keys))
	m.globals.RawSetString("ARGV", m.list(argv))
	m.Push(m.NewFunctionFromProto(s.proto))
	err := m.PCall(0, 1, nil)
	if err != nil {
		m.call = nil
		machines.Put(m)
		return s.failure(err)
	}
	reply := toReply(m.Get(-1))
	m.Pop(1)
	m.call = nil
	machines.Put(m)
	return reply
}

// failure is the error that Redis answers when a script ends with err.
func (s *Script) failure(err error) error {
	var raised *lua.ApiError
	if !errors.As(err, &raised) || raised.Type == lua.ApiErrorPanic {
		panic(err) // an error of nodetest itself
	}
	table, ok := raised.Object.(*lua.LTable)
	if !ok {
		return errors.New("ERR " + lua.LVAsString(raised.Object))
	}
	text := lua.LVAsString(table.RawGetString("err"))
	if line := lua.LVAsString(table.RawGetString("line")); line != "" {
		text += fmt.Sprintf(" script: %s, on @user_script:%s.", s.sha, line)
	}
	return errors.New(text)
}

func (m *machine) list(items []string) *lua.LTable {
	t := m.CreateTable(len(items), 0)
	for _, item := range items {
		t.Append(lua.LString(item))
	}
	return t
}

// command is redis.call, which raises errors, and redis.pcall, which returns them.
func (m *machine) command(raise bool) int {
	m.args = m.args[:0]
	for i := 1; i <= m.GetTop(); i++ {
		switch arg := m.Get(i).(type) {
		case lua.LString:
			m.args = append(m.args, string(arg))
		case lua.LNumber:
			m.args = append(m.args, number17(float64(arg)))
		default:
			m.RaiseError("Lua redis lib command arguments must be strings or integers")
		}
	}
	if len(m.args) == 0 {
		m.RaiseError("Please specify at least one argument for this redis.call() call")
	}
	reply := m.call(m.args[0], m.args[1:])
	if err, ok := reply.(error); ok {
		failed := m.CreateTable(0, 3)
		failed.RawSetString("err", lua.LString(err.Error()))
		failed.RawSetString("source", lua.LString("@user_script"))
		failed.RawSetString("line", lua.LString(strings.Trim(strings.TrimPrefix(m.Where(1), "user_script"), ": ")))
		if raise {
			m.Error(failed, 1)
		}
		m.Push(failed)
		return 1
	}
	m.Push(m.toLua(reply))
	return 1
}

// number17 prints a number as Redis does with an argument of redis.call: "%.17g".
func number17(n float64) string {
	if n == math.Trunc(n) && math.Abs(n) < 1<<53 {
		return strconv.FormatInt(int64(n), 10)
	}
	return strconv.FormatFloat(n, 'g', 17, 64)
}

// toLua converts a reply to what a script sees: nil becomes false.
func (m *machine) toLua(reply any) lua.LValue {
	switch r := reply.(type) {
	case nil:
		return lua.LFalse
	case string:
		return lua.LString(r)
	case int64:
		return lua.LNumber(r)
	case resp.Status:
		t := m.CreateTable(0, 1)
		t.RawSetString("ok", lua.LString(r))
		return t
	case []string:
		return m.list(r)
	case []any:
		t := m.CreateTable(len(r), 0)
		for _, item := range r {
			t.Append(m.toLua(item))
		}
		return t
	}
	panic(fmt.Sprintf("nodetest: a command replied with a %T", reply))
}

// toReply converts what a script returns to Redis's answer: numbers are truncated to
// integers, and a table ends at its first nil.
func toReply(val lua.LValue) any {
	switch v := val.(type) {
	case lua.LString:
		return string(v)
	case lua.LNumber:
		return int64(v)
	case lua.LBool:
		if v {
			return int64(1)
		}
		return nil
	case *lua.LTable:
		if failed, ok := v.RawGetString("err").(lua.LString); ok {
			return errors.New(string(failed))
		}
		if done, ok := v.RawGetString("ok").(lua.LString); ok {
			return resp.Status(done)
		}
		items := make([]any, 0, v.Len())
		for i := 1; ; i++ {
			item := v.RawGetInt(i)
			if item == lua.LNil {
				return items
			}
			items = append(items, toReply(item))
		}
	}
	return nil
}

// oneField is redis.error_reply or redis.status_reply.
func oneField(l *lua.LState, field string) int {
	t := l.CreateTable(0, 1)
	t.RawSetString(field, lua.LString(strings.TrimPrefix(l.CheckString(1), "-")))
	l.Push(t)
	return 1
}

// protectedCall is Redis 7's pcall. If the error is a table with a text in its field err,
// it returns that text.
//
// Without an error function gopher-lua detaches the local variables of all functions that
// run from the closures that share them, when an error is raised in any.
func (m *machine) protectedCall(l *lua.LState) int {
	if err := l.PCall(l.GetTop()-1, lua.MultRet, m.same); err != nil {
		var raised *lua.ApiError
		if !errors.As(err, &raised) || raised.Type == lua.ApiErrorPanic {
			panic(err) // an error of nodetest itself
		}
		what := raised.Object
		if table, ok := what.(*lua.LTable); ok {
			if text, ok := table.RawGetString("err").(lua.LString); ok {
				what = text
			}
		}
		l.Push(lua.LFalse)
		l.Push(what)
		return 2
	}
	l.Insert(lua.LTrue, 1)
	return l.GetTop()
}

// toNumber is tonumber without a base, by C's rules: gopher-lua's own refuses "1e3" and
// "inf", which Redis's takes.
func toNumber(l *lua.LState) int {
	switch v := l.CheckAny(1).(type) {
	case lua.LNumber:
		l.Push(v)
	case lua.LString:
		if n, ok := parseNumber(string(v)); ok {
			l.Push(lua.LNumber(n))
		} else {
			l.Push(lua.LNil)
		}
	default:
		l.Push(lua.LNil)
	}
	return 1
}

func parseNumber(text string) (float64, bool) {
	text = strings.Trim(text, " \t\n\v\f\r")
	digits, negative := strings.CutPrefix(text, "-")
	if hex, ok := strings.CutPrefix(strings.ToLower(digits), "0x"); ok && !strings.ContainsAny(hex, ".p_") {
		n, err := strconv.ParseUint(hex, 16, 64)
		if negative {
			return -float64(n), err == nil
		}
		return float64(n), err == nil
	}
	n, err := strconv.ParseFloat(text, 64)
	if strings.Contains(text, "_") || err != nil && !errors.Is(err, strconv.ErrRange) {
		return 0, false
	}
	return n, true
}
