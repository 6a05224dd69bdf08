# run.pl ENGINE <STATEMENTS: the statements, a line each, for the client. The provider marks each of them.
use strict;
use warnings;
my $engine = shift;
print "SET SESSION default_storage_engine = $engine, sql_mode = '', timestamp = 1700000000;\n";
my $number = 0;
while (<STDIN>) {
  chomp;
  next if /^\s*(#|$)/;
  $number++;
  print "SET GLOBAL wsrep_provider_options = 'record.mark=$number';\n$_;\n";
}
