// SPDX-License-Identifier: Apache-2.0
// Texts, questions with answers, and chats, a line of JSON each: how they become tokens, and which
// of these a model learns to write.
//
// The idea: whoever fine-tunes wants a model to write answers, not questions, so a document says of
// each token whether it is learned. The kind of a line is told by its keys, the first that fits:
//
//   {"messages": [{"role": "user", "content": "2 + 2?"}, {"role": "assistant", "content": "4"}]}
//   {"prompt": "2 + 2 = ", "completion": "4"}           or "instruction", "input" and "output"
//   {"text": "All of this is learned."}
//
// A chat is written as its model expects it, by a template; of its tokens those of the assistant
// are learned, with the token that ends its turn, unless the message has a "weight" of 0. No
// message is added that is not there. Each turn to learn is encoded by itself, as a model would
// write it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/status.h"
#include "tessera/tokenizer.h"

namespace tessera {

enum class ChatTemplate : std::uint8_t {
  none,    // chats are refused; a prompt and its completion follow each other as they are
  chatml,  // <|im_start|>role, a line feed, content<|im_end|>, a line feed
  llama3,  // <|begin_of_text|>, then <|start_header_id|>role<|end_header_id|>, two line feeds,
           // content without the spaces around it, <|eot_id|>
  plain,   // "role: content" and a line feed
};

struct DocumentOptions {
  std::optional<Tokenizer> tokenizer = {};  // none: a token per byte
  ChatTemplate chat = ChatTemplate::none;
  std::int32_t begin_of_text = -1;  // a token before texts and prompts; -1: none
  std::int32_t end_of_text = -1;    // a token behind texts and completions, learned; -1: none
  std::string key = "text";         // of a text
};

struct Document {
  std::vector<std::int32_t> tokens;
  std::vector<bool> learned;  // of each of them
};

/// What lines hold and a reader may not expect.
struct DocumentNotes {
  std::map<std::string, std::int64_t> unread;  // keys that mean nothing here, and in how many lines
  std::int64_t without_answer = 0;  // documents with an answer of which only the end is learned
  std::int64_t with_marks = 0;      // documents with tokens of the template in a message's text
  std::int64_t out_of_turn = 0;     // chats in which user and assistant do not take turns
  std::int64_t chats = 0;           // documents that the template was used for
  std::int64_t texts = 0;           // documents that are the text of DocumentOptions::key
  std::int64_t tokens = 0;          // of a tokenizer
  std::int64_t unknown = 0;         // of these, what stands for text that it has no token for
};

/// One line of JSON; `where` names it in messages. `notes`: gets what is worth a warning. Fails:
/// invalid_argument (no JSON, no object, a key twice, none of the keys above, a chat without a
/// template, a role that is none of system, user and assistant, a message with other keys than
/// role, content and weight; anything that is no text), what Tokenizer::encode fails with, naming
/// the line.
Result<Document> parse_document(std::string_view line, const DocumentOptions& options,
                                const std::string& where, DocumentNotes* notes = nullptr);
/// All lines of a file that are not empty. Fails: io_error; as above.
Result<std::vector<Document>> read_documents(const std::string& path,
                                             const DocumentOptions& options,
                                             DocumentNotes* notes = nullptr);
/// Counts them.
void note_tokens(std::span<const std::int32_t> tokens, const Tokenizer& tokenizer,
                 DocumentNotes& notes);
/// A sentence for each kind of note, with the file's name.
std::vector<std::string> warnings_of(const DocumentNotes& notes, const std::string& source);
/// "is JSON, no plain text", "has zero bytes, ...": what a file is that is taken for plain text,
/// by its name and its first bytes. Empty: nothing says so.
std::string other_than_text(std::string_view path, std::string_view beginning);
/// "is a NumPy array", "is text": what a file is that is taken for numbers of tokens, by its first
/// bytes. Empty: nothing says so.
std::string other_than_tokens(std::string_view beginning);
/// The mark that editors on Windows put before UTF-8: no part of the text. Its bytes, or 0.
std::size_t utf8_mark(std::string_view text);
/// Whether the tokenizer has the tokens of the template. Fails: invalid_argument, naming the first
/// that is missing.
Status check(const DocumentOptions& options);

}  // namespace tessera
