// Package sitetest holds what every site.Site must pass, for the tests of those who
// make one.
package sitetest
