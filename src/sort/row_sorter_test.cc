#include "sort/row_sorter.h"

#include <gtest/gtest.h>

namespace lithify::sort {
namespace {

TEST(RowSorter, EqualKeysKeepTheirOrder) {
  const auto sorter = MakeRowSorter({.memory_bytes = 1 << 20});
  KeyRows keys;
  keys.prefixes = {5, 3, 5, 3};
  ASSERT_TRUE(sorter->Add(keys, true));
  EXPECT_EQ(keys.size(), 0U);
  keys.prefixes = {4, 3};
  ASSERT_TRUE(sorter->Add(keys, false));
  const auto sorted = sorter->Finish();
  ASSERT_TRUE(sorted);
  EXPECT_EQ(sorted->rows, (std::vector<uint32_t>{1, 3, 5, 4, 0, 2}));
  EXPECT_FALSE(sorted->in_order);
  std::vector<bool> begins;
  for (size_t i = 0; i < sorted->key_begins.size(); ++i) begins.push_back(sorted->key_begins[i]);
  EXPECT_EQ(begins, (std::vector<bool>{true, false, false, true, true, false}));
}

}  // namespace
}  // namespace lithify::sort
