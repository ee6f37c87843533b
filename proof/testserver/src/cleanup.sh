# Ends a server and removes its directory once the process that held it is gone.
#
# MARK is in the command line of each process of the server; here it is in the environment, so that
# the shell does not find itself. DIRECTORY is empty if it is to be kept.

trap '' HUP INT TERM
# Only the holder has the other end of this pipe.
read -r _

round=0
while [ "$round" -lt 600 ]; do
    # QUIT lets PostgreSQL give back its shared memory.
    signal=QUIT
    [ "$round" -lt 100 ] || signal=KILL
    found=$(printf '%s\n' "$MARK" | grep -lsaF -f - /proc/[0-9]*/cmdline)
    [ -n "$found" ] || break
    for file in $found; do
        pid=${file#/proc/}
        pid=${pid%/cmdline}
        # A frozen process gets its signals when it goes on.
        kill -s "$signal" "$pid"
        kill -s CONT "$pid"
    done
    sleep 0.1
    round=$((round + 1))
done

[ -z "$DIRECTORY" ] || rm -rf -- "$DIRECTORY"
