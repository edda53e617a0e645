// SPDX-License-Identifier: Apache-2.0

package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"
)

// operators are the binary operators that are exchanged, each with what replaces it.
var operators = map[token.Token]string{
	token.LSS: "<=", token.LEQ: "<", token.GTR: ">=", token.GEQ: ">",
	token.EQL: "!=", token.NEQ: "==", token.LAND: "||", token.LOR: "&&",
	token.ADD: "-", token.SUB: "+", token.MUL: "/", token.QUO: "*",
	token.AND: "|", token.OR: "&", token.AND_NOT: "&",
	token.ADD_ASSIGN: "-=", token.SUB_ASSIGN: "+=", token.OR_ASSIGN: "&=", token.AND_ASSIGN: "|=",
	token.AND_NOT_ASSIGN: "|=", token.INC: "--", token.DEC: "++",
}

// unjudged are calls that no test of a rule judges: they tell, or they guard against a data race, which
// is for the race detector to find.
var unjudged = map[string]bool{
	"Lock": true, "Unlock": true, "RLock": true, "RUnlock": true,
	"InfoContext": true, "WarnContext": true, "panic": true,
}

// goMutants lists the mutants of a Go file.
func goMutants(file string, source []byte) ([]mutant, error) {
	fset := token.NewFileSet()
	tree, err := parser.ParseFile(fset, file, source, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	g := &goFile{file: file, source: source, fset: fset}
	ast.Inspect(tree, g.visit)
	return g.found, nil
}

type goFile struct {
	file   string
	source []byte
	fset   *token.FileSet
	found  []mutant
}

// replace adds a mutant that has after in place of the source from start to end.
func (g *goFile) replace(start, end token.Pos, after string) {
	from, to := g.fset.Position(start), g.fset.Position(end)
	g.found = append(g.found, mutant{file: g.file, line: from.Line, start: from.Offset, end: to.Offset,
		before: string(g.source[from.Offset:to.Offset]), after: after})
}

func (g *goFile) text(n ast.Node) string {
	return string(g.source[g.fset.Position(n.Pos()).Offset:g.fset.Position(n.End()).Offset])
}

// operator adds the mutant in which the operator of e is another one. The mutant is told as the whole of e.
func (g *goFile) operator(e ast.Node, op token.Token, at token.Pos) {
	other, ok := operators[op]
	if !ok {
		return
	}
	whole := g.text(e)
	from := g.fset.Position(at).Offset - g.fset.Position(e.Pos()).Offset
	g.replace(e.Pos(), e.End(), whole[:from]+other+whole[from+len(op.String()):])
}

// visit adds the mutants of one node, and says whether to go on with what is in it.
func (g *goFile) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.ImportSpec, *ast.TypeSpec, *ast.Field:
		return false
	case *ast.IfStmt:
		if strings.Contains(g.text(n.Cond), "mutants.") { // false in a normal build
			return false
		}
		g.condition(n.Cond)
	case *ast.BinaryExpr:
		if strings.HasPrefix(g.text(n.X), "mutants.") { // false in a normal build
			return false
		}
		if lit, ok := n.X.(*ast.BasicLit); !ok || lit.Kind != token.STRING {
			g.operator(n, n.Op, n.OpPos)
		}
	case *ast.IncDecStmt:
		g.operator(n, n.Tok, n.TokPos)
	case *ast.AssignStmt:
		g.assignment(n)
	case *ast.ExprStmt:
		g.call(n)
	case *ast.ReturnStmt:
		g.returns(n)
	case *ast.BasicLit:
		g.number(n)
	case *ast.CallExpr:
		if f, ok := n.Fun.(*ast.Ident); ok && (f.Name == "min" || f.Name == "max") {
			g.replace(f.Pos(), f.End(), map[string]string{"min": "max", "max": "min"}[f.Name])
		} else if text := g.text(n.Fun); text == "fmt.Errorf" || text == "errors.New" || text == "panic" {
			return false
		}
	}
	return true
}

// condition negates a condition that is no comparison: the operators of comparisons change by themselves.
func (g *goFile) condition(cond ast.Expr) {
	switch c := cond.(type) {
	case *ast.BinaryExpr:
	case *ast.UnaryExpr:
		if c.Op == token.NOT {
			g.replace(c.Pos(), c.End(), g.text(c.X))
		}
	default:
		g.replace(cond.Pos(), cond.End(), "!("+g.text(cond)+")")
	}
}

// assignment deletes an assignment to a field or an element, and exchanges its operator.
func (g *goFile) assignment(n *ast.AssignStmt) {
	g.operator(n, n.Tok, n.TokPos)
	if n.Tok == token.DEFINE {
		return
	}
	switch n.Lhs[0].(type) {
	case *ast.SelectorExpr, *ast.IndexExpr:
		g.replace(n.Pos(), n.End(), "")
	}
}

// call deletes a call.
func (g *goFile) call(n *ast.ExprStmt) {
	c, ok := n.X.(*ast.CallExpr)
	if !ok {
		return
	}
	name := g.text(c.Fun)
	if !unjudged[name[strings.LastIndex(name, ".")+1:]] {
		g.replace(n.Pos(), n.End(), "")
	}
}

// returns returns no error, or the other of true and false.
func (g *goFile) returns(n *ast.ReturnStmt) {
	for _, r := range n.Results {
		id, ok := r.(*ast.Ident)
		if !ok {
			continue
		}
		if other, ok := map[string]string{"true": "false", "false": "true", "err": "nil"}[id.Name]; ok {
			g.replace(id.Pos(), id.End(), other)
		}
	}
}

// number halves a constant, or takes 1 for 0 and 0 for 1.
func (g *goFile) number(n *ast.BasicLit) {
	if n.Kind != token.INT {
		return
	}
	v, err := strconv.ParseInt(n.Value, 0, 64)
	if err != nil {
		return
	}
	other := v / 2
	if v == 0 {
		other = 1
	}
	g.replace(n.Pos(), n.End(), strconv.FormatInt(other, 10))
}
