package site_test

import (
	"testing"

	"github.com/gangline/gangline/provider/site"
	"github.com/gangline/gangline/provider/site/sitetest"
)

func TestTheOwnUsersSite(t *testing.T) { sitetest.Run(t, site.Local{}, t.TempDir()) }
