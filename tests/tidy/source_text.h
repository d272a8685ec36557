// SPDX-License-Identifier: Apache-2.0
// C++ text with the parts blanked that a check must not look at. Lines stay where they were, so
// positions in the result are positions in the file.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tidy {

/// `text` with comments replaced by blanks.
std::string without_comments(std::string_view text);

/// `text` with comments and the contents of string and character literals replaced by blanks.
std::string without_comments_and_literals(std::string_view text);

/// `text` with preprocessor lines replaced by blanks, which may hold unbalanced braces.
std::string without_directives(std::string text);

/// The contents of the string literals of `text`, comments left out, in order.
std::vector<std::string> string_literals(std::string_view text);

std::vector<std::string> lines_of(std::string_view text);

/// The 1-based line of `position`.
int line_at(std::string_view text, std::size_t position);

}  // namespace tidy
