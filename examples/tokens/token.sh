#!/bin/sh
# Makes a token as its issuer would: ./token.sh SUBJECT [SECONDS until it expires]
set -eu
subject=$1
expires=$(($(date +%s) + ${2:-3600}))
part() { openssl base64 -A | tr '+/' '-_' | tr -d '='; }
header=$(printf '{"alg":"RS256","typ":"JWT"}' | part)
claims=$(printf '{"iss":"https://login.example.com","aud":"shop","sub":"%s","exp":%d}' "$subject" "$expires" | part)
signature=$(printf '%s.%s' "$header" "$claims" | openssl dgst -sha256 -sign issuer-key.pem -binary | part)
printf '%s.%s.%s\n' "$header" "$claims" "$signature"
