package My::Suite::TidesdbRpl;

use Cwd qw(abs_path);
use File::Basename qw(dirname);

@ISA = qw(My::Suite);

require(abs_path(dirname(__FILE__) . '/../tidesdb/include/later_defaults.pl'));

# The runner asks for the tests when it has read the suite's combinations.
sub list_cases {
  my ($self, $folder) = @_;
  my $combinations = TidesdbLaterDefaults::combinations();
  $self->{combinations} = $combinations if $combinations;
  return $self->SUPER::list_cases($folder);
}

bless {};
