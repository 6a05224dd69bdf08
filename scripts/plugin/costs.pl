#!/usr/bin/perl
# costs.pl CLIENT SOCKET [ROWS [ROUNDS]]: what the optimizer's accesses cost TidesDB, in the unit of the server's own costs.
#
# The server's costs are milliseconds on the machine on which MariaDB calibrated its engines by tests/check_costs.pl
# (Docs/optimizer_costs.txt). The same table and the same six accesses run here on InnoDB and TidesDB in turns, everything in
# memory, and ANALYZE FORMAT=JSON says how long each took in the table. An access that takes TidesDB r times as long
# as InnoDB costs r times what it cost InnoDB there. From the first four follow the numbers of update_costs
# (plugin/src/server/11.8/costs.cc) by the formulas of Docs/optimizer_costs.txt; row_copy_cost stays the server's.
use strict;
use warnings;
use JSON::PP;

my ($client, $socket, $rows, $rounds) = @ARGV;
die "usage: costs.pl CLIENT SOCKET [ROWS [ROUNDS]]\n" unless $socket;
$rows ||= 1_000_000;
$rounds ||= 5;
my @engines = qw(InnoDB TidesDB);

# Milliseconds for a million rows of InnoDB in Docs/optimizer_costs.txt, MariaDB 11.8; the last is not there: it is what
# the server's formula makes of InnoDB's numbers, and serves as a check.
my @accesses = (
  ['table scan', 131.302492, 'SELECT SUM(l_quantity) FROM TABLE'],
  ['index scan', 114.733037,
    'SELECT COUNT(*) FROM TABLE FORCE INDEX (l_suppkey) WHERE l_suppkey >= 0 AND l_partkey >= 0'],
  ['range scan', 961.485705,
    'SELECT SUM(l_orderkey) FROM TABLE FORCE INDEX (l_suppkey) WHERE l_suppkey >= 0 AND l_partkey >= 0 AND l_discount >= 0.0'],
  ['key lookup', 842.410610, "SELECT STRAIGHT_JOIN COUNT(*) FROM seq_1_to_$rows, TABLE WHERE seq = l_linenumber"],
  ['row lookup', 959.790773, "SELECT STRAIGHT_JOIN COUNT(*) FROM seq_1_to_$rows, TABLE WHERE seq = l_orderkey"],
  ['key and row lookup', 1689.1,
    "SELECT STRAIGHT_JOIN COUNT(*) FROM seq_1_to_$rows, TABLE WHERE seq = l_linenumber AND l_partkey >= 0"],
);
# Of the server, for every engine (sql/optimizer_defaults.h).
my $ROW_COPY = 0.000060866;
my $KEY_COPY = 0.000015685;
my $BLOCK_COPY = 0.0000356;

sub sql {
  my ($text) = @_;
  open(my $out, '-|', $client, '-S', $socket, '-uroot', '-N', '-r', '-B', 'costs', '-e', $text) or die "$client: $!\n";
  my $answer = do { local $/; <$out> };
  close $out or die "failed: $text\n";
  return $answer // '';
}

# Milliseconds in the last table of the plan.
sub time_of {
  my ($text) = @_;
  my $plan = decode_json(sql("SET optimizer_switch='index_condition_pushdown=off'; ANALYZE FORMAT=JSON $text"));
  my $table = $plan->{query_block}{nested_loop}[-1]{table};
  die "no time of a table in the plan of $text\n" unless defined $table->{r_table_time_ms};
  return $table->{r_table_time_ms};
}

sub median {
  my @sorted = sort { $a <=> $b } @_;
  return @sorted % 2 ? $sorted[$#sorted / 2] : ($sorted[@sorted / 2 - 1] + $sorted[@sorted / 2]) / 2;
}

for my $engine (@engines) {
  print STDERR "$engine: $rows rows\n";
  sql("DROP TABLE IF EXISTS lines_$engine; CREATE TABLE lines_$engine (
    l_orderkey INT NOT NULL PRIMARY KEY, l_partkey INT, l_suppkey INT, l_linenumber INT NOT NULL, l_extra INT NOT NULL,
    l_quantity DOUBLE, l_extendedprice DOUBLE, l_discount DOUBLE, l_tax DOUBLE, l_returnflag CHAR(1), l_linestatus CHAR(1),
    l_shipdate DATE, l_commitdate DATE, l_receiptdate DATE, l_shipinstruct CHAR(25), l_shipmode CHAR(10),
    l_comment VARCHAR(44), UNIQUE (l_linenumber), UNIQUE (l_extra), KEY l_suppkey (l_suppkey, l_partkey),
    KEY long_suppkey (l_partkey, l_suppkey, l_linenumber, l_extra)) ENGINE=$engine;
    INSERT INTO lines_$engine SELECT seq, seq / 10, seq, seq, seq, seq, seq, MOD(seq, 10) * 10, 0, 'a', 'b',
    '2000-01-01' + INTERVAL seq / 500 DAY, '2000-01-10' + INTERVAL seq / 500 DAY, '2000-01-20' + INTERVAL seq / 500 DAY,
    LEFT(MD5(seq), 25), IF(seq & 1, 'mail', 'ship'), REPEAT('a', MOD(seq, 40)) FROM seq_1_to_$rows;
    OPTIMIZE TABLE lines_$engine; ANALYZE TABLE lines_$engine");
}

printf "%-20s %12s %12s %8s %12s  %s\n", "$rows rows", 'InnoDB, ms', 'TidesDB, ms', 'ratio', 'spread', 'cost of a million';
my %cost;
for (@accesses) {
  my ($name, $published, $text) = @$_;
  my (%times, @ratios);
  for my $round (0 .. $rounds) {
    for my $engine (@engines) {
      my $time = time_of($text =~ s/TABLE/lines_$engine/r);
      push @{ $times{$engine} }, $time if $round;    # the first one fills the caches
    }
    push @ratios, $times{TidesDB}[-1] / $times{InnoDB}[-1] if $round;
  }
  my $ratio = median(@ratios);
  my ($least, $most) = (sort { $a <=> $b } @ratios)[0, -1];
  $cost{$name} = $published * $ratio;
  printf "%-20s %12.1f %12.1f %8.2f  %4.2f to %4.2f  %.1f\n", $name, median(@{ $times{InnoDB} }),
    median(@{ $times{TidesDB} }), $ratio, $least, $most, $cost{$name};
}
sql("DROP TABLE lines_$_") for @engines;

my $row_next = $cost{'table scan'} / 1e6 - $ROW_COPY;
my $key_next = $cost{'index scan'} / 1e6 - $KEY_COPY;
my $row_lookup = ($cost{'range scan'} - $cost{'index scan'}) / 1e6 + $KEY_COPY - $BLOCK_COPY - $ROW_COPY;
my $key_lookup = $cost{'key lookup'} / 1e6 - $BLOCK_COPY - $KEY_COPY;
printf "\nrow_next_find_cost %.8f\nkey_next_find_cost %.8f\nrow_lookup_cost    %.8f\nkey_lookup_cost    %.8f\n",
  $row_next, $key_next, $row_lookup, $key_lookup;
printf "what they make of the others: row lookup %.1f, key and row lookup %.1f\n",
  ($BLOCK_COPY + $row_lookup + $ROW_COPY) * 1e6, (2 * $BLOCK_COPY + $key_lookup + $row_lookup + $ROW_COPY) * 1e6;
