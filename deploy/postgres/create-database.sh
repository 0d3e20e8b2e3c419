#!/bin/sh
# Run once by the image of PostgreSQL, when it makes its data folder: see compose.yaml. Makes the database of the service and
# its role, which is no superuser. The superuser loses its password, so that only programs in the container can use it.
set -eu

psql --username=postgres --dbname=postgres --set=ON_ERROR_STOP=1 --set=password="$POSTGRES_PASSWORD" <<'SQL'
CREATE ROLE user_records LOGIN PASSWORD :'password';
CREATE DATABASE user_records OWNER user_records ENCODING 'UTF8' TEMPLATE template0;
REVOKE ALL ON DATABASE user_records FROM PUBLIC;
ALTER ROLE postgres PASSWORD NULL;
SQL
