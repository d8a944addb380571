// Unpacks archives by Go's archive/tar. Each line of the input is an archive, a tab and a directory.
package main

import (
	"archive/tar"
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

func main() {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		archive, directory, _ := strings.Cut(lines.Text(), "\t")
		if err := unpack(archive, directory); err != nil {
			fmt.Printf("refused: %q\n", err.Error())
		} else {
			fmt.Println("done")
		}
	}
}

func unpack(archive, directory string) error {
	file, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer file.Close()
	directories := map[string]*tar.Header{}
	for reader := tar.NewReader(file); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if header.Typeflag == tar.TypeXGlobalHeader {
			continue
		}
		path := filepath.Join(directory, header.Name)
		if err := place(reader, header, directory, path); err != nil {
			return err
		}
		if header.Typeflag == tar.TypeDir {
			directories[path] = header
		}
	}
	for path, header := range directories {
		if err := describe(path, header); err != nil {
			return err
		}
	}
	return nil
}

func place(reader io.Reader, header *tar.Header, directory, path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if header.Typeflag == tar.TypeDir {
		return os.MkdirAll(path, 0o755)
	}
	target := filepath.Join(directory, header.Linkname)
	if header.Typeflag == tar.TypeLink && target == path {
		return nil
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	switch header.Typeflag {
	case tar.TypeReg, tar.TypeRegA, tar.TypeCont, tar.TypeGNUSparse:
		file, err := os.Create(path)
		if err != nil {
			return err
		}
		defer file.Close()
		if _, err := io.Copy(file, reader); err != nil {
			return err
		}
	case tar.TypeLink:
		return os.Link(target, path)
	case tar.TypeSymlink:
		if err := os.Symlink(header.Linkname, path); err != nil {
			return err
		}
		return os.Lchown(path, header.Uid, header.Gid)
	case tar.TypeFifo:
		if err := syscall.Mkfifo(path, 0o600); err != nil {
			return err
		}
	default:
		return fmt.Errorf("type %q", header.Typeflag)
	}
	return describe(path, header)
}

func describe(path string, header *tar.Header) error {
	if err := os.Lchown(path, header.Uid, header.Gid); err != nil {
		return err
	}
	if err := syscall.Chmod(path, uint32(header.Mode)&0o7777); err != nil {
		return err
	}
	return os.Chtimes(path, time.Time{}, header.ModTime)
}
