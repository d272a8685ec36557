// SPDX-License-Identifier: Apache-2.0
// The options that say which data a model reads, shared by `train` and `evaluate`.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "tessera/corpus.h"
#include "tessera/model.h"

namespace tessera::cli {

struct DataArguments {
  std::vector<std::string> files;  // perhaps with weights
  std::string format = "auto";
  std::string tokenizer;
  std::string chat_template = "none";
  std::string begin_of_text, end_of_text;  // tokens of the tokenizer, or their numbers; "": none
  std::string text_key = "text";
};

/// --data-format and all that say how texts become tokens.
void add_text_options(CLI::App& command, DataArguments& arguments);

/// The options that all files of a run share. Fails: what Tokenizer::open fails with;
/// invalid_argument (no such token; a model that reads no tokens), naming the option.
Result<CorpusOptions> corpus_options(const DataArguments& arguments, const std::string& model_path,
                                     const Model& model);
/// Fails: invalid_argument, naming an option that means nothing to these data.
Status check_text_options(const CLI::App& command, const DataArguments& arguments,
                          const Corpus& corpus);

/// "web.bin:2.5" is a file with its weight, unless a file is called so.
CorpusFile corpus_file(const std::string& text);

}  // namespace tessera::cli
