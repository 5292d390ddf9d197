#!/usr/bin/awk -f
# OpenMetrics, as "tsnatctl metrics" prints it -> Prometheus' older text format, which is all that node_exporter's textfile
# collector reads: there families have the names of their samples, and there are no types "info" and "unknown".
$2 == "UNIT" || $2 == "EOF" { next }
$2 == "TYPE" {
	suffix = $4 == "counter" ? "_total" : $4 == "info" ? "_info" : ""
	type = $4 == "info" ? "gauge" : $4 == "unknown" ? "untyped" : $4
	print "# TYPE " $3 suffix " " type
	next
}
$2 == "HELP" { sub($3, $3 suffix) }
{ print }
