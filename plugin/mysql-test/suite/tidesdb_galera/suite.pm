use Cwd qw(abs_path);
use File::Basename qw(dirname);

# Of the server's own suite: whether there is a provider, and which warnings are none.
my $suite = do './suite/galera/suite.pm';
die $@ if $@;
push @::global_suppressions,
  qr(TidesDB: Galera does not replicate rows of TidesDB tables),
  qr(Slave SQL: Error 'TidesDB: (Galera does not replicate rows|rows of )),
  qr(Slave SQL: Error 'Table 'test\..*' doesn't exist');

# The servers look for wsrep_sst_copy there.
$ENV{PATH} = abs_path(dirname(__FILE__)) . ":$ENV{PATH}";
$suite;
