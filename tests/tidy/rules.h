// SPDX-License-Identifier: Apache-2.0
// The rules of the source tree that a machine can check. Each takes text and gives findings, so
// that each is itself tested on a small bad snippet (rules_test.cpp).
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tests/tidy/source_file.h"

namespace tidy {

/// Who may include whom: the include table of docs/ARCHITECTURE.md.
Findings check_includes(const SourceFile& file);

/// Functions have at most 70 lines, signature and braces included.
Findings check_function_length(const SourceFile& file);

/// Words that break determinism, layering or readability, each with what to use instead.
Findings check_words(const SourceFile& file);

/// Licence line, #pragma once, the comment a public header begins with, name, line and file length.
Findings check_form(const SourceFile& file);

/// Every .cpp is listed in the CMakeLists.txt of its folder or of a folder above; every private
/// header is included by someone.
Findings check_listed(const std::vector<SourceFile>& tree);

/// The long options in the program's texts and those of docs/cli.md are the same.
Findings check_cli_options(const std::vector<SourceFile>& tree);

/// Relative links of Markdown files lead somewhere. `exists` gets paths relative to the repository.
Findings check_links(const SourceFile& file, const std::function<bool(const std::string&)>& exists);

}  // namespace tidy
