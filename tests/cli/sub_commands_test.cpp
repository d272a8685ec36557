// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>

#include "tests/cli/flags.h"

namespace tessera::test {

// Those whose flags every_flag_test and every_train_flag_test try.
TEST_CASE("the flags of every sub-command are tried", "[cli][flags]") {
  std::string names;
  for (const std::string& name : sub_commands()) names += name + ", ";
  CHECK(names ==
        "train, evaluate, tokenize, generate, simulate, ops, estimate, wrap, report, "
        "trace recover, trace verify, trace import, trace export, trace merge, query, compare, "
        "inspect, collective, cluster list, cluster show, cluster check, calibrate, "
        "checkpoint info, checkpoint verify, checkpoint export, checkpoint merge, "
        "checkpoint import, doctor, completion, ");
}

}  // namespace tessera::test
