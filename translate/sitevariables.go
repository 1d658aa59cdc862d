package translate

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/gangline/gangline/provider/spool"
)

// SiteVariable is a variable that the site gives to pods which do not set it themselves.
type SiteVariable struct {
	Name string `json:"name"`
	// Value may name fields of spool.EnvironmentFields. Other braces are just that.
	Value string `json:"value"`
	// Partitions are those whose pods get it; empty for all.
	Partitions []string `json:"partitions,omitempty"`
}

// SiteVariables are a site's. Of several for one variable the first counts whose
// partitions fit.
type SiteVariables []SiteVariable

// ownVariables begin the names of variables that are not the site's to set.
const ownVariables = "GANGLINE_"

// siteField is a field, or looks like one.
var siteField = regexp.MustCompile(`\{[A-Za-z]+\}`)

// Validate tells what is wrong with them. Each error begins with the path of its entry.
func (vs SiteVariables) Validate() error {
	var errs []error
	everywhere := map[string]int{}
	for i, v := range vs {
		fail := func(format string, args ...any) {
			errs = append(errs, fmt.Errorf("environment[%d]: %w", i, fmt.Errorf(format, args...)))
		}
		switch {
		case v.Name == "" || strings.ContainsAny(v.Name, "=\x00"):
			fail("%q cannot be a variable's name", v.Name)
		case strings.HasPrefix(v.Name, ownVariables):
			fail("%s is Gangline's own to set", v.Name)
		}
		if strings.ContainsRune(v.Value, 0) {
			fail("the value of %s has a NUL byte", v.Name)
		}
		if err := knownFields(v.Value, spool.EnvironmentFields()); err != nil {
			fail("the value of %s: %w", v.Name, err)
		}
		if first, known := everywhere[v.Name]; known {
			fail("%s is there for all partitions in environment[%d]; put that one last", v.Name, first)
		} else if len(v.Partitions) == 0 {
			everywhere[v.Name] = i
		}
	}
	return errors.Join(errs...)
}

// knownFields refuses what looks like a field and is none of the known ones.
func knownFields(text string, known []string) error {
	for _, field := range siteField.FindAllString(text, -1) {
		if !slices.Contains(known, field) {
			return fmt.Errorf("there is no field %s, but %s", field, strings.Join(known, ", "))
		}
	}
	return nil
}

// CheckScratch tells what is wrong with a rule for where pods' scratch volumes are.
func CheckScratch(path string) error {
	if path == "" {
		return nil
	}
	if !isClean(path) {
		return fmt.Errorf("volumes.scratch must be an absolute path without // and .., not %q", path)
	}
	if err := knownFields(path, spool.ScratchFields()); err != nil {
		return fmt.Errorf("volumes.scratch %q: %w", path, err)
	}
	if strings.ContainsAny(siteField.ReplaceAllString(path, ""), "{}*?[") {
		return fmt.Errorf("volumes.scratch %q must have no other braces, and no *, ? and [", path)
	}
	return nil
}

// in are the variables for pods of a partition.
func (vs SiteVariables) in(partition string) []corev1.EnvVar {
	var vars []corev1.EnvVar
	seen := map[string]bool{}
	for _, v := range vs {
		if seen[v.Name] || len(v.Partitions) > 0 && !slices.Contains(v.Partitions, partition) {
			continue
		}
		seen[v.Name] = true
		vars = append(vars, corev1.EnvVar{Name: v.Name, Value: v.Value})
	}
	return vars
}

// given is what the site gives to a pod in its partition.
func (s Site) given() spool.Site {
	return spool.Site{Environment: s.Environment.in(s.Partition), Limits: s.Limits.orders()}
}
