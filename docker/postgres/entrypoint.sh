#!/bin/sh
# Makes the database where there is none, then becomes the server. The arguments are the server's.
set -eu

user=${POSTGRES_USER:-postgres}
database=${POSTGRES_DB:-$user}

if [ ! -s "$PGDATA/PG_VERSION" ]; then
    if [ -n "${POSTGRES_PASSWORD_FILE:-}" ]; then
        POSTGRES_PASSWORD=$(cat "$POSTGRES_PASSWORD_FILE")
    fi
    method=${POSTGRES_HOST_AUTH_METHOD:-scram-sha-256}
    if [ -z "${POSTGRES_PASSWORD:-}" ] && [ "$method" != trust ]; then
        echo "set POSTGRES_PASSWORD, or POSTGRES_PASSWORD_FILE: this server listens on the network" >&2
        exit 1
    fi
    # Under another name until it is whole: one that was cut short is made again.
    draft=$PGDATA.new
    rm -rf "$draft"
    printf '%s\n' "${POSTGRES_PASSWORD:-unused}" > /tmp/password
    initdb --pgdata="$draft" --username="$user" --pwfile=/tmp/password --auth-local=trust --auth-host="$method" \
        --encoding=UTF8 --locale-provider=builtin --builtin-locale=C.UTF-8 --locale=C --no-instructions
    rm /tmp/password
    echo "host all all all $method" >> "$draft/pg_hba.conf"
    if [ "$database" != postgres ]; then
        printf 'CREATE DATABASE "%s"\n' "$(printf '%s' "$database" | sed 's/"/""/g')" \
            | postgres --single -D "$draft" -c exit_on_error=on postgres
    fi
    mv "$draft" "$PGDATA"
fi
unset POSTGRES_PASSWORD

exec postgres -D "$PGDATA" -c "listen_addresses=*" "$@"
