// Writes archives by Go's archive/tar. Each line of the input is an archive and its members, between tabs: of each the name, the
// type, the mode, owner and group, and records in hexadecimal.
package main

import (
	"archive/tar"
	"bufio"
	"encoding/hex"
	"fmt"
	"os"
	"strconv"
	"strings"
)

var types = map[string]byte{
	"directory": tar.TypeDir,
	"file":      tar.TypeReg,
	"fifo":      tar.TypeFifo,
	"symlink":   tar.TypeSymlink,
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		parts := strings.Split(lines.Text(), "\t")
		if err := write(parts[0], parts[1:]); err != nil {
			fmt.Printf("refused: %q\n", err.Error())
		} else {
			fmt.Println("done")
		}
	}
}

func write(archive string, members []string) error {
	file, err := os.Create(archive)
	if err != nil {
		return err
	}
	defer file.Close()
	writer := tar.NewWriter(file)
	for _, text := range members {
		header, err := member(strings.Split(text, " "))
		if err != nil {
			return err
		}
		if err := writer.WriteHeader(header); err != nil {
			return err
		}
	}
	return writer.Close()
}

func member(fields []string) (*tar.Header, error) {
	var numbers [3]int64
	for at, base := range []int{8, 10, 10} {
		number, err := strconv.ParseInt(fields[2+at], base, 64)
		if err != nil {
			return nil, err
		}
		numbers[at] = number
	}
	header := &tar.Header{
		Format:     tar.FormatPAX,
		Name:       fields[0],
		Typeflag:   types[fields[1]],
		Mode:       numbers[0],
		Uid:        int(numbers[1]),
		Gid:        int(numbers[2]),
		PAXRecords: map[string]string{},
	}
	if header.Typeflag == tar.TypeSymlink {
		header.Linkname = "target"
	}
	for _, record := range fields[5:] {
		var parts [2]string
		for at, digits := range strings.SplitN(record, "=", 2) {
			part, err := hex.DecodeString(digits)
			if err != nil {
				return nil, err
			}
			parts[at] = string(part)
		}
		header.PAXRecords[parts[0]] = parts[1]
	}
	return header, nil
}
