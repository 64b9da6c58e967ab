// go-zookeeper under the conformance suite: docs/conformance.md describes the lines. With the package
// of Debian:
//
//	apt-get install golang-go golang-github-samuel-go-zookeeper-dev
//	export GO111MODULE=off GOPATH=/usr/share/gocode
//	go build -o target/shim-go tests/peers/conform/shim.go
//	conform -- target/shim-go
package main

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/samuel/go-zookeeper/zk"
)

var (
	client *zk.Conn
	chroot string
	locks  = map[string]*zk.Lock{}
	output sync.Mutex
	world  = zk.WorldACL(zk.PermAll)
	codes  = map[error]int{
		zk.ErrConnectionClosed: -4, zk.ErrSessionExpired: -112, zk.ErrAuthFailed: -115,
		zk.ErrNoNode: -101, zk.ErrNoAuth: -102, zk.ErrBadVersion: -103,
		zk.ErrNoChildrenForEphemerals: -108, zk.ErrNodeExists: -110, zk.ErrNotEmpty: -111,
		zk.ErrInvalidACL: -114, zk.ErrSessionMoved: -118, zk.ErrAPIError: -100,
	}
	states = map[zk.State]string{
		zk.StateHasSession: "connected", zk.StateDisconnected: "suspended",
		zk.StateExpired: "expired", zk.StateAuthFailed: "auth-failed",
	}
	events = map[zk.EventType]string{
		zk.EventNodeCreated: "created", zk.EventNodeDeleted: "deleted",
		zk.EventNodeDataChanged: "changed", zk.EventNodeChildrenChanged: "children",
	}
)

func say(line string) {
	output.Lock()
	defer output.Unlock()
	fmt.Println(strings.TrimRight(line, " "))
}

func failure(err error) string {
	if code, ok := codes[err]; ok {
		return fmt.Sprint("error ", code)
	}
	return "error other " + err.Error()
}

func fires(watch <-chan zk.Event) {
	for event := range watch {
		if kind, ok := events[event.Type]; ok {
			say("event " + kind + " " + strings.TrimPrefix(event.Path, chroot))
		}
	}
}

func shown(data []byte) string {
	switch {
	case data == nil:
		return "null"
	case len(data) > 100:
		return fmt.Sprint("bytes:", len(data))
	}
	return `"` + string(data) + `"`
}

func version(word string) int32 {
	number, _ := strconv.ParseInt(word, 10, 32)
	return int32(number)
}

func connect(words []string) error {
	timeout := 10 * time.Second
	for _, word := range words[1:] {
		if strings.HasPrefix(word, "timeout=") {
			timeout = time.Duration(version(word[8:])) * time.Millisecond
		}
	}
	servers := words[0]
	if at := strings.Index(servers, "/"); at >= 0 {
		servers, chroot = servers[:at], servers[at:]
	}
	conn, session, err := zk.Connect(strings.Split(servers, ","), timeout, zk.WithLogInfo(false))
	client = conn
	go func() {
		for event := range session {
			if state, ok := states[event.State]; ok && event.Type == zk.EventSession {
				say("state " + state)
			}
		}
		say("state closed")
	}()
	return err
}

func multi(words []string) (string, error) {
	parts := strings.Split(strings.Join(words, " "), ", ")
	var operations []interface{}
	for _, part := range parts {
		word := strings.Fields(part)
		path := chroot + word[1]
		switch word[0] {
		case "create":
			operations = append(operations, &zk.CreateRequest{Path: path, Data: []byte(word[2]), Acl: world})
		case "set":
			operations = append(operations, &zk.SetDataRequest{Path: path, Data: []byte(word[2]), Version: version(word[3])})
		case "delete":
			operations = append(operations, &zk.DeleteRequest{Path: path, Version: version(word[2])})
		default:
			operations = append(operations, &zk.CheckVersionRequest{Path: path, Version: version(word[2])})
		}
	}
	results, err := client.Multi(operations...)
	return strconv.Itoa(len(results)), err
}

func run(command string, words []string) (string, error) {
	path, watches := "", false
	if len(words) > 0 && command != "connect" {
		path = chroot + words[0]
		if words[0] == "/" && chroot != "" {
			path = chroot
		}
		watches = words[len(words)-1] == "watch"
	}
	switch command {
	case "connect":
		if words[len(words)-1] == "read-only" {
			return "unsupported", nil
		}
		return "", connect(words)
	case "get":
		if !watches {
			data, stat, err := client.Get(path)
			return found(data, stat), err
		}
		data, stat, watch, err := client.GetW(path)
		if err == nil {
			defer func() { go fires(watch) }()
		}
		return found(data, stat), err
	case "exists":
		if !watches {
			is, stat, err := client.Exists(path)
			return exists(is, stat), err
		}
		is, stat, watch, err := client.ExistsW(path)
		if err == nil {
			defer func() { go fires(watch) }()
		}
		return exists(is, stat), err
	case "children":
		if !watches {
			names, _, err := client.Children(path)
			return listed(names), err
		}
		names, _, watch, err := client.ChildrenW(path)
		if err == nil {
			defer func() { go fires(watch) }()
		}
		return listed(names), err
	case "create":
		var flags int32
		for _, word := range words[2:] {
			switch word {
			case "ephemeral":
				flags |= zk.FlagEphemeral
			case "sequential":
				flags |= zk.FlagSequence
			default:
				return "unsupported", nil
			}
		}
		created, err := client.Create(path, []byte(words[1]), flags, world)
		return strings.TrimPrefix(created, chroot), err
	case "set":
		stat, err := client.Set(path, []byte(words[1]), version(words[2]))
		if err != nil {
			return "", err
		}
		return fmt.Sprint(stat.Version), nil
	case "delete":
		return "", client.Delete(path, version(words[1]))
	case "multi":
		return multi(words)
	case "sync":
		_, err := client.Sync(path)
		return "", err
	case "acl":
		acl, _, err := client.GetACL(path)
		return strconv.Itoa(len(acl)), err
	case "session":
		return fmt.Sprintf("0x%x", uint64(client.SessionID())), nil
	case "auth":
		return "", client.AddAuth(words[0], []byte(words[1]))
	case "lock":
		locks[path] = zk.NewLock(client, path, world)
		return "", locks[path].Lock()
	case "unlock":
		return "", locks[path].Unlock()
	case "close":
		client.Close()
		return "", nil
	}
	return "unsupported", nil
}

func found(data []byte, stat *zk.Stat) string {
	if stat == nil {
		return ""
	}
	return fmt.Sprint(shown(data), " ", stat.Version)
}

func exists(is bool, stat *zk.Stat) string {
	if !is || stat == nil {
		return "none"
	}
	return strings.Trim(fmt.Sprint(*stat), "{}")
}

func listed(names []string) string {
	if len(names) > 10 {
		return fmt.Sprint("names:", len(names))
	}
	return strings.Join(names, " ")
}

func main() {
	say("client go-zookeeper 20180130")
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		go func() {
			result, err := run(words[1], words[2:])
			switch {
			case err != nil:
				say(words[0] + " " + failure(err))
			case result == "unsupported":
				say(words[0] + " unsupported")
			default:
				say(words[0] + " ok " + result)
			}
		}()
		// The methods block, so requests of several goroutines need time to queue in their order.
		time.Sleep(3 * time.Millisecond)
	}
}
