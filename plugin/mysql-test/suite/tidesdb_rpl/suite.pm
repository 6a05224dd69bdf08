package My::Suite::TidesdbRpl;

use Cwd qw(abs_path);
use File::Basename qw(dirname);

@ISA = qw(My::Suite);

# MariaDB 10.11 runs with the defaults of 11.8 that the tests rely on, as a combination of its own: results that differ all the
# same are in r/TEST,mariadb_10.rdiff. 11.8 has no combination. (The runner makes the database `test` in latin1.)
my @LATER_DEFAULTS = qw(--character-set-server=utf8mb4 --collation-server=utf8mb4_uca1400_ai_ci --innodb-snapshot-isolation=ON
  --loose-tidesdb-snapshot-isolation=ON
  --optimizer-switch=hash_join_cardinality=on,cset_narrowing=on);
push @LATER_DEFAULTS, '--init-file=' . abs_path(dirname(__FILE__) . '/../tidesdb/include/test_database.sql');

# The runner asks for the tests when it has read the suite's combinations.
sub list_cases {
  my ($self, $folder) = @_;
  $self->{combinations} = [ { name => 'mariadb_10', comb_opt => [@LATER_DEFAULTS] } ] if $::mysql_version_id < 110000;
  return $self->SUPER::list_cases($folder);
}

bless {};
