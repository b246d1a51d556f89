#!/bin/sh
# Backups of a PostgreSQL that memsvc does not run itself, and its log beside them, from which any later time is restored.
#
#   postgres.sh archive FOLDER                  archive the log until it is stopped; run it as a service beside the database
#   postgres.sh backup FOLDER [KEEP]            take a backup and check it; then delete all but KEEP backups and older log
#   postgres.sh list FOLDER                     list the backups and the newest segment of the log
#   postgres.sh restore FOLDER PGDATA [TIME]    create a data folder that PostgreSQL recovers to TIME at its next start;
#                                               TIME as 2026-01-31T12:00:00Z, else the end of the log
#
# Where the server is: PGHOST, PGPORT, PGUSER, PGPASSFILE and their kin. The role needs LOGIN and REPLICATION, and a line
# `host replication ROLE ...` in pg_hba.conf. MEMSVC_BACKUP_SLOT names the replication slot (memsvc_archive).
# `restore` is run by the account that PostgreSQL runs as. docs/backup.md says the rest.
set -eu
umask 077
export LC_ALL=C
slot=${MEMSVC_BACKUP_SLOT:-memsvc_archive}

fail() {
    echo "Error: $1" >&2
    exit 1
}

# The folder belongs to one history of one database: with each restore and each failover begins another.
claim() {
    identity=$(psql --no-psqlrc --no-password --no-align --tuples-only --command IDENTIFY_SYSTEM "dbname=postgres replication=true" |
        cut -d '|' -f 1,2 | tr '|' ' ')
    [ -n "$identity" ] || fail "the server did not report the system identifier of its database"
    mkdir -p "$folder"
    if [ -e "$folder/cluster" ]; then
        [ "$(cat "$folder/cluster")" = "$identity" ] ||
            fail "$folder holds backups of another database, or of this one before a restore: choose another folder"
    else
        [ -z "$(ls -A "$folder")" ] || fail "$folder contains files other than backups"
        echo "$identity" > "$folder/cluster"
    fi
    mkdir -p "$folder/base"
}

first_segment() {
    sed -n 's/^START WAL LOCATION: .* (file \([0-9A-F]*\))$/\1/p' "$1/data/backup_label"
}

archive() {
    claim
    mkdir -p "$folder/log"
    pg_receivewal --no-password --slot "$slot" --create-slot --if-not-exists
    exec pg_receivewal --no-password --slot "$slot" --synchronous --verbose --directory "$folder/log"
}

backup() {
    claim
    unfinished=$(mktemp -d "$folder/unfinished-XXXXXX") # in containers, two processes may have the same id
    trap 'rm -rf "$unfinished"' EXIT
    trap 'exit 1' HUP INT TERM
    pg_basebackup --no-password --checkpoint=fast --wal-method=stream --format=plain --pgdata "$unfinished/data"
    sleep 1 # a name has no parts of a second, and no copy may be named before it was done
    name=$(date -u +%Y%m%dT%H%M%SZ)
    pg_verifybackup --quiet "$unfinished/data"
    first=$(first_segment "$unfinished")
    if [ -d "$folder/log" ] && [ ! -e "$folder/log/$first" ] && [ ! -e "$folder/log/$first.partial" ]; then
        fail "the log in $folder does not reach back to this backup: check that \`postgres.sh archive\` is running"
    fi
    [ ! -e "$folder/base/$name" ] || fail "another backup was taken in the same second: try again"
    mv "$unfinished" "$folder/base/$name"
    sync
    echo "$folder/base/$name"
    [ -z "$keep" ] || drop_older
}

drop_older() {
    older=$(($(ls "$folder/base" | wc -l) - keep))
    [ "$older" -gt 0 ] || return 0
    ls "$folder/base" | sort | head -n "$older" | while read -r name; do
        mv "$folder/base/$name" "$folder/unfinished-$name" # never half of one under its name
        rm -rf "$folder/unfinished-$name"
    done
    [ ! -d "$folder/log" ] || pg_archivecleanup "$folder/log" "$(first_segment "$folder/base/$(ls "$folder/base" | sort | head -n 1)")"
}

list() {
    ls "$folder/base" | sort
    [ ! -d "$folder/log" ] || echo "log until $(ls -t "$folder/log" | head -n 1)"
}

# 1 says that the log ends here, 255 that it cannot be read, at which PostgreSQL gives up. Its last segment is not full.
fetch() {
    printf 'test -x "%s" || exit 255; if test -e "%s/%%f"; then cp "%s/%%f" "%%p" || exit 255; ' "$folder" "$folder/log" "$folder/log"
    printf 'else test -e "%s/%%f.partial" || exit 1; cp "%s/%%f.partial" "%%p" || exit 255; fi' "$folder/log" "$folder/log"
}

restore() {
    folder=$(cd "$folder" && pwd)
    case $folder in *[!A-Za-z0-9/._-]*) fail "the name of the backup folder may only contain letters, digits, /, ., _ and -" ;; esac
    [ ! -e "$place" ] || rmdir "$place" || fail "$place is not empty: restore into an empty folder"
    wanted=$(echo "$time" | sed -n 's/^\(....\)-\(..\)-\(..\)T\(..\):\(..\):\(..\(\.[0-9]*\)\{0,1\}\)Z$/\1\2\3T\4\5\6/p')
    [ -z "$time" ] || [ -n "$wanted" ] || fail "the time must have the form 2026-01-31T12:00:00Z"
    [ -z "$time" ] || [ -d "$folder/log" ] || fail "$folder does not contain an archived log, so a backup can only be restored as a whole, without a time"
    chosen=
    for name in $(ls "$folder/base" | sort); do
        done_at=${name%Z}
        if [ -z "$wanted" ] || [ "$(printf '%s\n%s\n' "$done_at" "$wanted" | sort | head -n 1)" = "$done_at" ]; then
            chosen=$name
        fi
    done
    [ -n "$chosen" ] || fail "$folder does not contain a backup from before that time"
    unfinished=$place.unfinished
    [ ! -e "$unfinished" ] || fail "$unfinished belongs to a restore that is running or was killed: if it was killed, remove the folder"
    trap 'rm -rf "$unfinished"' EXIT
    trap 'exit 1' HUP INT TERM
    cp -R "$folder/base/$chosen/data" "$unfinished"
    pg_verifybackup --quiet "$unfinished"
    {
        echo "restore_command = '$(fetch)'"
        echo "recovery_target_time = '${time:+${time%Z}+00}'" # without a time too: the copy may have that of a restore before
        echo "recovery_target_timeline = 'current'"
        echo "recovery_target_action = 'promote'"
        echo "archive_mode = off"
    } >> "$unfinished/postgresql.auto.conf"
    touch "$unfinished/recovery.signal"
    chmod 700 "$unfinished"
    sync
    mv "$unfinished" "$place"
    echo "restored $chosen to $place: start PostgreSQL on it"
}

command=${1:-}
folder=${2:-}
[ -n "$folder" ] || fail "usage: postgres.sh archive|backup|list|restore FOLDER ..."
case $command in
    archive) archive ;;
    backup)
        keep=${3:-}
        case $keep in *[!0-9]* | 0*) fail "the number of backups to keep must be 1 or greater" ;; esac
        backup
        ;;
    list) list ;;
    restore)
        place=${3:-}
        place=${place%/}
        time=${4:-}
        [ -n "$place" ] || fail "usage: postgres.sh restore FOLDER PGDATA [TIME]"
        restore
        ;;
    *) fail "unknown command $command: use archive, backup, list or restore" ;;
esac
