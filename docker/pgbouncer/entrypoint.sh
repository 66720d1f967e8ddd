#!/bin/sh
# Writes the configuration, then becomes the pooler.
set -eu

cat > /tmp/pgbouncer.ini <<END
[databases]
* = host=$SERVER port=5432 auth_user=postgres

[pgbouncer]
pool_mode = transaction
listen_addr = *
listen_port = 6432
unix_socket_dir =
auth_type = trust
auth_file = /tmp/users.txt
max_client_conn = 1000
default_pool_size = ${POOL_SIZE:-4}
max_prepared_statements = ${PREPARED:-200}
server_login_retry = 0.1
log_connections = 0
log_disconnections = 0
END
echo '"postgres" ""' > /tmp/users.txt

exec pgbouncer -q /tmp/pgbouncer.ini
