use Cwd qw(abs_path);
use File::Basename qw(dirname);

# As the suite of nodes that do not take part: its provider, and its state transfer.
my $suite = do './suite/tidesdb_galera/suite.pm';
die $@ if $@;
$ENV{PATH} = abs_path(dirname(__FILE__) . '/../tidesdb_galera') . ":$ENV{PATH}";
$suite;
