# random.pl TABLES: statements over random tables, one a line. The variable SEED has the seed.
use strict;
use warnings;
use utf8;
binmode STDOUT, ':utf8';
my ($tables) = @ARGV;
my $seed = $ENV{SEED} || 1;
srand $seed;
print "# SEED=$seed\n";

sub pick { $_[int rand @_] }
sub chance { rand() < $_[0] }

my @collations = qw(latin1_swedish_ci latin1_german2_ci latin1_bin utf8mb4_general_ci utf8mb4_unicode_ci
  utf8mb4_uca1400_ai_ci utf8mb4_uca1400_as_cs utf8mb4_bin utf8mb4_nopad_bin utf8mb4_general_nopad_ci utf8mb3_general_ci
  utf16_general_ci utf32_unicode_ci ucs2_bin cp1251_general_ci sjis_japanese_ci gbk_chinese_ci utf8mb4_german2_ci
  utf8mb4_czech_ci);
my @words = ('', 'a', 'A', 'ab', 'AB ', 'ß', 'ss', 'Straße', 'straße ', 'ä', 'Ä', 'ae', 'ch', 'CH', 'ц', 'あ', '中x', '😀',
  'a b', ' a', 'zzz  ', 'quite long text of many characters', "tab\tz");

sub text { my $w = pick(@words); $w .= pick(@words) if chance(0.3); $w = $w x int(rand 40) if chance(0.1); "'$w'" }
sub charset { my $c = pick(@collations); my ($s) = split /_/, $c; "CHARACTER SET $s COLLATE $c" }
sub number { my $most = shift; pick(0, 1, 2, -1, int(rand 2 * $most) - $most) }

# Each: definition, values, whether an index over it needs a length, most characters of a prefix.
sub column {
  my $kind = int rand 22;
  return ["TINYINT", sub { number(127) }, 0, 0] if $kind == 0;
  return ["SMALLINT UNSIGNED", sub { abs number(30000) }, 0, 0] if $kind == 1;
  return ["MEDIUMINT", sub { number(8000000) }, 0, 0] if $kind == 2;
  return ["INT", sub { number(2000000000) }, 0, 0] if $kind <= 4;
  return ["BIGINT UNSIGNED", sub { abs number(1e15) }, 0, 0] if $kind == 5;
  return ["DECIMAL(10,3)", sub { number(1000000) / 8 }, 0, 0] if $kind == 6;
  return [pick('FLOAT', 'DOUBLE'), sub { number(1000) / 4 }, 0, 0] if $kind == 7;
  return ["BIT(" . pick(1, 9, 33) . ")", sub { abs number(100) }, 0, 0] if $kind == 8;
  return ["DATE", sub { sprintf "'20%02d-%02d-%02d'", rand 40, 1 + rand 12, 1 + rand 28 }, 0, 0] if $kind == 9;
  return ["TIME(" . pick(0, 3, 6) . ")", sub { sprintf "'%s%02d:%02d:%02d.%06d'", pick('', '-'), rand 100, rand 60, rand 60, rand 1e6 }, 0, 0] if $kind == 10;
  return [pick('DATETIME', 'TIMESTAMP NULL', 'DATETIME(4)', 'TIMESTAMP(6) NULL'), sub { sprintf "'20%02d-%02d-%02d %02d:%02d:%02d.%06d'", 1 + rand 30, 1 + rand 12, 1 + rand 28, 4 + rand 20, rand 60, rand 60, rand 1e6 }, 0, 0] if $kind == 11;
  return ["ENUM('x','y','z')", sub { pick("'x'", "'y'", "'z'") }, 0, 0] if $kind == 12;
  return ["SET('p','q','r')", sub { pick("''", "'p'", "'p,r'", "'q'") }, 0, 0] if $kind == 13;
  return ["BINARY(6)", sub { text() }, 0, 6] if $kind == 14;
  return ["VARBINARY(30)", sub { text() }, 0, 30] if $kind == 15;
  return ["CHAR(" . pick(1, 5, 20) . ") " . charset(), sub { text() }, 0, 1] if $kind == 16;
  return ["VARCHAR(" . pick(10, 60, 80) . ") " . charset(), sub { text() }, 0, 10] if $kind <= 18;
  return [pick('TEXT ', 'TINYTEXT ') . charset(), sub { text() }, 1, 20] if $kind == 19;
  return [pick('BLOB', 'MEDIUMBLOB'), sub { text() }, 1, 20] if $kind == 20;
  return [pick('UUID', 'INET6'), undef, 0, 0];
}

sub value {
  my ($column) = @_;
  return 'NULL' if $column->{null} && chance(0.2);
  if (!$column->{value}) {
    return $column->{type} eq 'UUID' ? sprintf("'%08x-e89b-12d3-a456-426655440000'", rand 8) : sprintf("'2001:db8::%x'", rand 8);
  }
  return $column->{value}->();
}

sub part {
  my ($column, $whole) = @_;
  my $part = $column->{name};
  if ($column->{length} || (!$whole && $column->{most} && chance(0.3))) { $part .= '(' . (1 + int rand($column->{most} || 5)) . ')' }
  $part .= ' DESC' if chance(0.15);
  return $part;
}

sub parts { my ($columns, $most) = @_; my %seen; my @chosen = grep { !$seen{$_->{name}}++ } map { pick(@$columns) } 1 .. 1 + rand $most; return @chosen }

for my $number (1 .. $tables) {
  my $table = "r$number";
  my @columns;
  for my $i (1 .. 2 + rand 5) {
    my ($type, $value, $length, $most) = @{column()};
    my $null = chance(0.5) || $type =~ /NULL/;
    push @columns, {name => "c$i", type => $type, value => $value, length => $length, most => $most, null => $null};
  }
  # In the order of n, which no index has, engines change the same rows.
  my @definitions = ('n INT', map { "$_->{name} $_->{type}" . ($_->{null} ? '' : ' NOT NULL') } @columns);
  my $integer = (grep { $_->{type} =~ /INT$/ } @columns)[0];
  push @definitions, "v INT AS ($integer->{name} % 7) VIRTUAL" if $integer && chance(0.2) && (my $virtual = 1);
  my $has_virtual = $definitions[-1] =~ /VIRTUAL/;
  my $primary;
  if (chance(0.65)) {
    my @of = grep { !$_->{null} } parts(\@columns, 3);
    if (@of) { $primary = join ', ', map { part($_, chance(0.7)) } @of; push @definitions, "PRIMARY KEY ($primary)" }
  }
  push @definitions, "UNIQUE (" . join(', ', map { part($_, chance(0.7)) } parts(\@columns, 3)) . ")" for 1 .. rand 3;
  push @definitions, "KEY (" . join(', ', map { part($_, chance(0.7)) } parts(\@columns, 3)) . ")" for 1 .. rand 3;
  push @definitions, pick('UNIQUE', 'KEY') . " (v)" if $has_virtual && chance(0.5);
  my @long = grep { $_->{length} } @columns;
  push @definitions, "UNIQUE ($long[0]{name})" if @long && chance(0.4);
  my $partitioned = $primary && chance(0.15);
  print "CREATE TABLE $table (" . join(', ', @definitions) . ")" . ($partitioned ? " PARTITION BY KEY () PARTITIONS 3" : '') . "\n";
  my $names = join ', ', 'n', map { $_->{name} } @columns;
  my $inserted = 0;
  my $row = sub { '(' . join(', ', ++$inserted, map { value($_) } @columns) . ')' };
  my $where = sub { my $c = pick(@columns); my $v = value($c); $v eq 'NULL' ? "$c->{name} IS NULL" : "$c->{name} " . pick('=', '>=', '<=') . " $v" };
  for (1 .. 4 + rand 6) { print "INSERT IGNORE INTO $table ($names) VALUES " . $row->() . "\n" }
  for (1 .. 12) {
    my $kind = rand;
    my $c = pick(@columns);
    if ($kind < 0.45) { print "UPDATE IGNORE $table SET " . join(', ', map { "$_->{name} = " . value($_) } parts(\@columns, 2)) . " WHERE " . $where->() . " ORDER BY n LIMIT 1\n" }
    elsif ($kind < 0.6) { print "INSERT INTO $table ($names) VALUES " . $row->() . "\n" }
    elsif ($kind < 0.7) { print "INSERT INTO $table ($names) VALUES " . $row->() . " ON DUPLICATE KEY UPDATE $c->{name} = " . value($c) . "\n" }
    elsif ($kind < 0.8) { print "REPLACE INTO $table ($names) VALUES " . $row->() . "\n" }
    elsif ($kind < 0.9) { print "DELETE FROM $table WHERE " . $where->() . " ORDER BY n LIMIT 1\n" }
    else { print "UPDATE IGNORE $table SET $c->{name} = " . value($c) . " ORDER BY n\n" }
  }
  # A child of some columns that begin an index. A partitioned table has none.
  my @of_index = map { /^(PRIMARY KEY|UNIQUE|KEY) \((.*)\)$/ ? [split /, /, $2] : () } @definitions;
  my ($index) = grep { !grep { /\(| DESC|^v$/ } @$_ } @of_index;
  if ($index && !$partitioned && chance(0.7)) {
    my @chosen = @$index[0 .. int rand @$index];
    my %by_name = map { $_->{name} => $_ } @columns;
    my $null = pick('', ' NOT NULL');
    my @actions = map { "ON $_ " . pick('CASCADE', 'CASCADE', $null ? 'RESTRICT' : 'SET NULL', 'NO ACTION') } qw(DELETE UPDATE);
    my $child = "f$number";
    my $columns = join ', ', map { "k$_" } @chosen;
    my @defined = map { "k$_ $by_name{$_}{type}$null" } @chosen;
    my $key = pick('id INT PRIMARY KEY, x INT', 'id INT UNIQUE, x INT', 'id INT, x INT, PRIMARY KEY (x, id)', 'id INT, x INT',
      $null ? "id INT, x INT, PRIMARY KEY (k$chosen[0]" . ($by_name{$chosen[0]}{length} ? '(5)' : '') . ", id)" : 'id INT, x INT');
    my $more = pick('', ", KEY ($columns, x)", ', KEY (x, id)');
    print "CREATE TABLE $child ($key, " . join(', ', @defined) . "$more, FOREIGN KEY ($columns) REFERENCES $table (" . join(', ', @chosen) . ") @actions)\n";
    for my $id (1 .. 4) {
      print "INSERT IGNORE INTO $child (id, x, $columns) SELECT $id, $id % 2, " . join(', ', @chosen) . " FROM $table ORDER BY n LIMIT " . ($id - 1) . ", 1\n";
    }
    for (1 .. 8) {
      my $kind = rand;
      my $c = $by_name{pick(@chosen)};
      if ($kind < 0.2) { print "UPDATE $child SET x = x + 1 WHERE id = " . int(1 + rand 4) . "\n" }
      elsif ($kind < 0.4) { print "UPDATE $child SET k$c->{name} = " . value($c) . " WHERE id = " . int(1 + rand 4) . "\n" }
      elsif ($kind < 0.6) { print "UPDATE $table SET $c->{name} = " . value($c) . " WHERE " . $where->() . " ORDER BY n LIMIT 1\n" }
      elsif ($kind < 0.8) { print "DELETE FROM $table WHERE " . $where->() . " ORDER BY n LIMIT 1\n" }
      else { print "DELETE FROM $child WHERE id = " . int(1 + rand 4) . "\n" }
    }
    print "DROP TABLE $child\n";
  }
  print "DROP TABLE $table\n";
}
