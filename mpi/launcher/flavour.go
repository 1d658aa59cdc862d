package launcher

import (
	"fmt"
	"regexp"
	"strings"
)

// The protocols by which ranks find each other, as srun's --mpi calls them.
const (
	PMIx = "pmix"
	PMI2 = "pmi2"
)

var pmiName = regexp.MustCompile(`^(pmix(_v[0-9]+)?|pmi2|cray_shasta)$`)

// CheckPMI tells what is wrong with a name of a protocol.
func CheckPMI(name string) error {
	if !pmiName.MatchString(name) {
		return fmt.Errorf("%q is none of pmix, pmix_v4 and the like, pmi2 and cray_shasta", name)
	}
	return nil
}

// SpeaksPMIx tells a protocol of the PMIx family from one of PMI's.
func SpeaksPMIx(name string) bool { return strings.HasPrefix(name, PMIx) }

// flavour is an MPI implementation: by what its launcher says of itself, and by
// the libraries that its programs need.
type flavour struct {
	name, pmi string
	says      []string
	library   *regexp.Regexp
}

// flavours are the implementations that are told apart. The number after ".so."
// is the library's ABI: Open MPI's has been 40 since release 3; 12 is that of
// the MPICH ABI initiative, which Intel MPI and others share.
func flavours() []flavour {
	return []flavour{
		{"Open MPI", PMIx, []string{"(Open MPI)", "(OpenRTE)", "prterun", "(PRRTE)"}, regexp.MustCompile(`^libmpi(_cxx|_mpifh|_usempif08|_usempi_ignore_tkr)?(-[a-z]+)?\.so\.(20|40)$`)},
		{"Intel MPI", PMI2, []string{"Intel(R) MPI"}, nil},
		{"MPICH", PMI2, []string{"HYDRA build details", "MPICH"}, regexp.MustCompile(`^libmp(i|ich|icxx|ifort|ichcxx|ichfort)\.so\.12$`)},
	}
}

// LauncherFlavour tells from the answer to "mpirun --version" whose launcher it
// is, and which protocol its programs speak.
func LauncherFlavour(version string) (name, pmi string, ok bool) {
	for _, f := range flavours() {
		for _, words := range f.says {
			if strings.Contains(version, words) {
				return f.name, f.pmi, true
			}
		}
	}
	return "", "", false
}

// ProgramFlavour tells the same of a program from the libraries that it is
// linked with. A program that loads its MPI later, as a script does, tells
// nothing.
func ProgramFlavour(libraries []string) (name, pmi string, ok bool) {
	for _, f := range flavours() {
		for _, library := range libraries {
			if f.library != nil && f.library.MatchString(library) {
				return f.name, f.pmi, true
			}
		}
	}
	return "", "", false
}
