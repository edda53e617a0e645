#!/bin/sh
# Makes what compose.yaml needs: certificates and users in ./secrets, passwords in ./.env. It replaces nothing.
set -eu
cd "$(dirname "$0")"
if [ -e secrets ] || [ -e authority ] || [ -e .env ]; then
  echo "setup.sh: secrets, authority or .env is there: masters may use them. Remove all three to make new ones." >&2
  exit 1
fi
command -v openssl >/dev/null || {
  echo "setup.sh: openssl is missing, and makes the certificates: install it (apt-get install openssl)" >&2
  exit 1
}
[ ! -e redlock ] || chmod 755 redlock # the image runs it as another user
umask 077
# Half of it is of no use, and the next call would take it for something that masters use.
undo() { [ $? = 0 ] || { cat secrets/log >&2; rm -rf secrets authority .env; }; }
trap undo EXIT
mkdir secrets
: >secrets/log

new="-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes"
(
  cd secrets
  openssl req -x509 $new -days 3650 -subj /CN=authority -keyout authority.key -out authority.pem
  sign() { # a name, and the hosts of the certificate
    openssl req $new -subj "/CN=$1" -keyout "$1.key" -out "$1.csr"
    echo "subjectAltName=$2" >"$1.ext"
    openssl x509 -req -in "$1.csr" -CA authority.pem -CAkey authority.key -CAcreateserial -days 365 -extfile "$1.ext" -out "$1.pem"
    rm "$1.csr" "$1.ext"
  }
  sign master DNS:master-1,DNS:master-2,DNS:master-3,DNS:localhost,IP:127.0.0.1
  sign client DNS:client
) 2>secrets/log

# The key of the authority signs further certificates. No server needs it.
mkdir authority && mv secrets/authority.key secrets/authority.srl authority/

locker=$(openssl rand -hex 24)
admin=$(openssl rand -hex 24)
hash() { printf %s "$1" | openssl dgst -sha256 -r | cut -d' ' -f1; }
cat >secrets/users.acl <<END
user default off
user locker on #$(hash "$locker") resetchannels ~* &redisson_* &redlock:wake:* -@all +hello +select +info +client|id +client|kill +client|setname +eval +evalsha +script|load +time +set +get +hgetall +subscribe +unsubscribe +ping +publish +pubsub|numsub +hset +hget +hmget +hdel +hexists +hkeys +hlen +hrandfield +exists +del +pexpire +pttl +zadd +zrem +zpopmin +zrange +zrank +zscore +scan
user admin on #$(hash "$admin") resetchannels ~* +@all
END
cat >.env <<END
OWNER=$(id -u):$(id -g)
LOCKER_PASSWORD=$locker
ADMIN_PASSWORD=$admin
END

rm secrets/log
# Some characters of a path mean something else in a URL.
here=$(printf %s "$PWD" | sed 's/%/%25/g; s/&/%26/g; s/+/%2B/g; s/#/%23/g; s/@/%40/g; s/,/%2C/g; s/;/%3B/g; s/ /%20/g')
files="cert=$here/secrets/client.pem&key=$here/secrets/client.key&ca=$here/secrets/authority.pem"
for i in 1 2 3; do
  echo "rediss://locker:$locker@127.0.0.1:700$i?name=master-$i&$files"
done
