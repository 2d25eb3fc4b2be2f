package operator

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// confirm makes a command that destroys data ask before it begins, unless it gets --yes. question has a %s for each
// argument.
func confirm(command *cobra.Command, question string) {
	yes := command.Flags().BoolP("yes", "y", false, "do not ask")
	command.PreRunE = func(cmd *cobra.Command, args []string) error {
		if *yes {
			return nil
		}
		in := cmd.InOrStdin()
		if f, ok := in.(*os.File); ok && !term.IsTerminal(int(f.Fd())) {
			return errors.New("nobody is there to confirm it: add --yes")
		}
		operands := make([]any, len(args))
		for n, arg := range args {
			operands[n] = printable(arg)
		}
		return ask(in, cmd.ErrOrStderr(), fmt.Sprintf(question, operands...))
	}
}

// ask returns an error unless the answer is yes.
func ask(in io.Reader, out io.Writer, question string) error {
	fmt.Fprintf(out, "%s Go on? [y/N] ", question)
	answer, _ := bufio.NewReader(in).ReadString('\n') // at an end of file, it is no yes
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return errors.New("nothing was changed")
}
