# compare.pl STATEMENTS WRITE_SETS OUTPUT OUTPUT: tells which statements gave other keys to InnoDB's write set than to
# TidesDB's, or had another outcome. In what order the keys of a statement come is nobody's concern.
use strict;
use warnings;
my ($statements, $write_sets, @outputs) = @ARGV;

sub lines { my ($file) = @_; open my $in, '<', $file or die "$file: $!"; chomp(my @lines = <$in>); @lines }

my @statements = grep { !/^\s*(#|$)/ } lines($statements);
my (%keys, $engine, $number);
for (lines($write_sets)) {
  if (/^mark begin (\w+)/) { ($engine, $number) = ($1, 0); $keys{$engine} = []; }
  elsif (/^mark end/) { undef $engine }
  elsif (/^mark (\d+)/) { $number = $1 }
  elsif (/^key (.*)/ && $engine) { push @{$keys{$engine}[$number]}, $1 }
  elsif (/^certify (.*)/ && $engine) { push @{$keys{$engine}[$number]}, "flags $1" }
}
sub readable {
  my ($type, $db, $table, $key) = split / /, $_[0];
  return $_[0] unless defined $db;
  return join ' ', "  $type", (map { pack 'H*', $_ } $db, $table), $key // '';
}
# Answers: rows, and errors by the number of their line (run.pl). Of two errors of a row engines name either.
my @answers = map { [map { s/^(ERROR) \d+.* at line (\d+).*/$1 at $2/r } lines($_)] } @outputs;
my %failed = map { / at (\d+)$/ ? (($1 - 1) / 2 => 1) : () } grep { /^ERROR/ } @{$answers[0]};
my ($with_keys, $differing) = (0, 0);
for my $number (1 .. @statements) {
  # Of a table's key one is enough.
  my @sets = map { my %seen; [sort grep { !/^\w+ \w+ \w+$/ || !$seen{$_}++ } @{$keys{$_}[$number] // []}] } qw(InnoDB TidesDB);
  $with_keys++ if @{$sets[0]};
  # What a failed statement has appended before its end, changes of other rows perhaps, protects nothing.
  next if $failed{$number};
  next if join("\n", @{$sets[0]}) eq join("\n", @{$sets[1]});
  $differing++;
  print "$statements[$number - 1]\n";
  my %count;
  $count{$_}++ for @{$sets[0]};
  $count{$_}-- for @{$sets[1]};
  for my $key (sort keys %count) {
    print readable($key), $count{$key} > 0 ? ": InnoDB alone\n" : ": TidesDB alone\n" for 1 .. abs $count{$key};
  }
}
print "The answers differ\n" if "@{$answers[0]}" ne "@{$answers[1]}";
print "No statement has keys\n" if $with_keys == 0;
print "SEED=", $ENV{SEED} || 1, "\n" if $differing != 0;
print "Other keys: $differing statements\n";
