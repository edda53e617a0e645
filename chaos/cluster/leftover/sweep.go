// SPDX-License-Identifier: Apache-2.0

// Package leftover removes what a cluster of masters left behind because its program was killed: containers, networks, images and directories.
// Each of them carries the name of the program that made it, so [Sweep] knows which belong to nobody any more. A [Reaper] is a second process,
// which sweeps as soon as the program has ended.
package leftover

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	dc "github.com/ory/dockertest/v3/docker"
)

// dirPrefix starts the name of a directory of ours: prefix, owner, "-", something unique.
const dirPrefix = "redlock-chaos-"

// TempDir makes a directory that Sweep removes when this program has ended without doing so.
func TempDir() (string, error) {
	dir, err := os.MkdirTemp("", dirPrefix+string(self())+"-")
	if err != nil {
		return "", fmt.Errorf("cluster: %w", err)
	}
	return dir, nil
}

// Sweep removes what clusters of programs that were killed on this host left behind: containers, networks, images and directories. It
// returns what it removed, in words. Live clusters, of this program or another, are not touched; without an engine only directories are
// removed. It tries everything and joins the errors.
func Sweep(ctx context.Context) (removed []string, err error) {
	var errs []error
	if pool, _, err := Engine(); err == nil {
		removed, err = Purge(ctx, pool.Client, func(labels map[string]string) bool { return owner(labels[ownerLabel]).dead() })
		errs = append(errs, err)
	}
	dirs, err := sweepDirs()
	if err := errors.Join(append(errs, err)...); err != nil {
		return append(removed, dirs...), fmt.Errorf("cluster: sweep: %w", err)
	}
	return append(removed, dirs...), nil
}

func sweepDirs() (removed []string, err error) {
	dirs, err := filepath.Glob(filepath.Join(os.TempDir(), dirPrefix+"*"))
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, dir := range dirs {
		name := strings.TrimPrefix(filepath.Base(dir), dirPrefix)
		if !owner(name[:max(0, strings.LastIndexByte(name, '-'))]).dead() {
			continue
		}
		if err := os.RemoveAll(dir); err != nil {
			errs = append(errs, err)
			continue
		}
		removed = append(removed, "directory "+dir)
	}
	return removed, errors.Join(errs...)
}

// Purge removes the containers, networks and images of ours that have the labels asked for. It tries everything and joins the errors.
func Purge(ctx context.Context, client *dc.Client, match func(labels map[string]string) bool) (removed []string, err error) {
	var errs []error
	remove := func(what, name string, labels map[string]string, f func() error) {
		if !match(labels) {
			return
		}
		if err := IgnoreMissing(f()); err != nil {
			errs = append(errs, fmt.Errorf("remove %s %s: %w", what, name, err))
			return
		}
		removed = append(removed, what+" "+name)
	}
	ours := map[string][]string{"label": {RunLabel}}
	containers, err := client.ListContainers(dc.ListContainersOptions{All: true, Filters: ours, Context: ctx})
	errs = append(errs, err)
	for _, c := range containers {
		remove("container", strings.Join(c.Names, " "), c.Labels, func() error {
			return client.RemoveContainer(dc.RemoveContainerOptions{ID: c.ID, Force: true, RemoveVolumes: true, Context: ctx})
		})
	}
	networks, err := client.FilteredListNetworks(dc.NetworkFilterOpts{"label": {RunLabel: true}})
	errs = append(errs, err)
	for _, n := range networks {
		remove("network", n.Name, n.Labels, func() error { return client.RemoveNetwork(n.ID) })
	}
	images, err := client.ListImages(dc.ListImagesOptions{Filters: ours, Context: ctx})
	errs = append(errs, err)
	for _, i := range images {
		remove("image", strings.Join(i.RepoTags, " "), i.Labels, func() error {
			return client.RemoveImageExtended(i.ID, dc.RemoveImageOptions{Context: ctx})
		})
	}
	return removed, errors.Join(errs...)
}
