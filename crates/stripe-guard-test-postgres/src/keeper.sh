# Keeps one server: starts and stops it on command, and ends it and removes its folder when no more commands can come.
#   sh -c … keeper FOLDER LAST-SIGNAL SERVER…
# The commands come through a pipe that the test's process alone holds open, so the end of input is the end of that
# process, whatever ended it.
folder=$1 last=$2
shift 2
server=

# A stopped process does not act on a signal, so it is woken as well.
stop() {
    [ -n "$server" ] || return 0
    kill -s "$1" "$server"
    kill -s CONT "$server"
    wait "$server"
    server=
}

while read -r word argument; do
    case $word in
        start)
            "$@" </dev/null >>"$folder/log" 2>&1 &
            server=$!
            echo "$server"
            ;;
        stop)
            stop "$argument"
            echo stopped
            ;;
        # From here on the server outlives who started it. It ends when nobody has held the file shared for a while;
        # whoever comes during the end waits for it, since the lock is held meanwhile.
        linger)
            exec 8<"$argument"
            echo lingering
            until flock -x 8 && flock -u 8 && sleep 5 && flock -xn 8; do :; done
            break
            ;;
    esac
done

stop "$last"
# Somebody who was killed may have left a program that still writes here.
for _ in 1 2 3 4 5 6 7 8 9 10; do
    rm -rf "$folder"
    [ -e "$folder" ] || break
    sleep 0.3
done
