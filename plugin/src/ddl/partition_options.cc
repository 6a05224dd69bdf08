#include "ddl/partition_options.h"

#include "sql_class.h"

#include "partition_info.h"

namespace tidesdb {

namespace {

partition_element *element_at(List<partition_element> &elements, uint number) {
  List_iterator<partition_element> all(elements);
  partition_element *element = all++;
  while (element && number-- > 0) element = all++;
  return element;
}

}  // namespace

PartitionOptions::PartitionOptions(TABLE *form, uint number)
    : share_(form->s), own_(share_->option_struct), own_list_(share_->option_list) {
  partition_info *const partitions = form->part_info;
  if (!partitions) return;
  const uint parts = partitions->is_sub_partitioned() ? partitions->num_subparts : 1;
  partition_element *element = element_at(partitions->partitions, number / parts);
  if (element && partitions->is_sub_partitioned())
    element = element_at(element->subpartitions, number % parts);
  if (!element) return;
  if (element->option_struct) share_->option_struct = element->option_struct;
  if (element->option_list) share_->option_list = element->option_list;
}

PartitionOptions::~PartitionOptions() {
  share_->option_struct = own_;
  share_->option_list = own_list_;
}

}  // namespace tidesdb
