#!/bin/sh
# One HTTP request on standard input, the metrics of tsnatd as the answer.
cr=$(printf '\r')
answer() { # STATUS CONTENT-TYPE BODY
	printf 'HTTP/1.1 %s\r\nContent-Type: %s\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s\n' \
		"$1" "$2" $((${#3} + 1)) "$3"
}

read -r method path _ || exit 0
while read -r line && [ -n "${line%"$cr"}" ]; do :; done
LC_ALL=C
case "$method $path" in
'GET /metrics' | 'GET /metrics?'*)
	if metrics=$(tsnatctl metrics 2>&1); then
		answer '200 OK' 'application/openmetrics-text; version=1.0.0; charset=utf-8' "$metrics"
	else
		answer '503 Service Unavailable' text/plain "$metrics"
	fi
	;;
*) answer '404 Not Found' text/plain 'There is only GET /metrics.' ;;
esac
