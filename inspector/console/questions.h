// SPDX-License-Identifier: Apache-2.0
// The questions of docs/query.md, which is part of the program: one place to write them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/types.h"

namespace tessera::inspector {

struct Question {
  std::string title;  // "Which all_gather was most exposed?"
  std::string sql;
};

/// In the manual's order.
const std::vector<Question>& questions();

/// The question's SQL for what is looked at: the rank and the step that it names become `rank` and
/// `step`, and instead of a few rows it asks for all that somebody reads.
std::string asked_of(const Question& question, Rank rank, std::int32_t step);

}  // namespace tessera::inspector
