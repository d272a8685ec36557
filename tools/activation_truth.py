#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records how many bytes torch keeps for the backward pass of small models.

Writes tests/golden/activations.json, which a test compares with the program's formulas. Measured in
bfloat16 with scaled_dot_product_attention and the loss; norms and GELUs are replaced by fused ones,
as the formulas assume them (docs/model-format.md).

    python3 tools/activation_truth.py > tests/golden/activations.json
"""
import json

import torch
import torch.nn.functional as F
import transformers

import architecture_truth

TOKENS = 256
BASE = dict(vocab_size=512, hidden_size=256, intermediate_size=704, num_hidden_layers=6,
            num_attention_heads=4)
GROUPED = dict(BASE, num_key_value_heads=2)
CASES = [
    ("llama", "LlamaForCausalLM", GROUPED),
    ("qwen2", "Qwen2ForCausalLM", GROUPED),
    ("qwen3", "Qwen3ForCausalLM", dict(GROUPED, head_dim=64)),
    ("mistral", "MistralForCausalLM", GROUPED),
    ("gemma", "GemmaForCausalLM", dict(GROUPED, head_dim=64)),
    ("olmo2", "Olmo2ForCausalLM", dict(GROUPED, pad_token_id=0)),
    ("granite", "GraniteForCausalLM", GROUPED),
    ("phi3", "Phi3ForCausalLM", dict(GROUPED, pad_token_id=0)),
    ("glm", "GlmForCausalLM", dict(GROUPED, head_dim=64, pad_token_id=0)),
    ("stablelm", "StableLmForCausalLM", GROUPED),
    ("starcoder2", "Starcoder2ForCausalLM", dict(GROUPED, hidden_act="gelu_pytorch_tanh")),
    ("gpt_neox", "GPTNeoXForCausalLM", BASE),
    ("phi", "PhiForCausalLM", BASE),
    ("cohere", "CohereForCausalLM", GROUPED),
    ("gpt2", "GPT2LMHeadModel", dict(vocab_size=512, n_embd=256, n_layer=6, n_head=4, resid_pdrop=0.1,
     attn_pdrop=0.0, embd_pdrop=0.0, activation_function="gelu_pytorch_tanh")),
    ("opt", "OPTForCausalLM", dict(vocab_size=512, hidden_size=256, ffn_dim=1024, num_hidden_layers=6,
     num_attention_heads=4, word_embed_proj_dim=256)),
    ("bert", "BertForMaskedLM", dict(BASE, intermediate_size=1024, attention_probs_dropout_prob=0.0)),
    ("falcon", "FalconForCausalLM", dict(vocab_size=512, hidden_size=256, num_hidden_layers=6,
     num_attention_heads=4)),
    ("smollm3", "SmolLM3ForCausalLM", dict(GROUPED, pad_token_id=0)),
    ("gemma3_text", "Gemma3ForCausalLM", dict(GROUPED, head_dim=64)),
    ("ernie4_5", "Ernie4_5ForCausalLM", dict(GROUPED, head_dim=64)),
    ("seed_oss", "SeedOssForCausalLM", dict(GROUPED, head_dim=64, residual_dropout=0.0, attention_dropout=0.0)),
    ("hunyuan_v1_dense", "HunYuanDenseV1ForCausalLM", dict(GROUPED, head_dim=64)),
    ("ministral", "MinistralForCausalLM", dict(GROUPED, head_dim=64)),
    ("helium", "HeliumForCausalLM", dict(GROUPED, head_dim=64)),
    ("olmo3", "Olmo3ForCausalLM", dict(GROUPED, pad_token_id=0)),
    ("exaone4", "Exaone4ForCausalLM", dict(GROUPED, head_dim=64)),
    ("arcee", "ArceeForCausalLM", dict(GROUPED, head_dim=64)),
    ("nemotron", "NemotronForCausalLM", dict(GROUPED, head_dim=64)),
    ("apertus", "ApertusForCausalLM", GROUPED),
    ("olmoe", "OlmoeForCausalLM", dict(GROUPED, num_experts=4, num_experts_per_tok=2, pad_token_id=0)),
]


class FusedNorm(torch.autograd.Function):
    """What a fused kernel keeps: its input and a reciprocal deviation per row."""

    @staticmethod
    def forward(ctx, x, weight, eps):
        ctx.save_for_backward(x, torch.empty(x.shape[:-1]), weight)
        wide = x.float()
        return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + eps)).to(x.dtype)

    @staticmethod
    def backward(ctx, grad):
        return grad, None, None


def fuse(model):
    for module in model.modules():
        name = type(module).__name__
        if (name.endswith("RMSNorm") or name == "CohereLayerNorm") and hasattr(module, "weight"):
            module.forward = lambda x, m=module: FusedNorm.apply(x, m.weight, 1e-6)
        if "XIELU" in name:
            module.forward = F.silu  # keeps its input, as a fused kernel does
        if "GELU" in name:
            module.forward = lambda x: F.gelu(x, approximate="tanh")


def kept_bytes(kind, name, settings):
    config = transformers.CONFIG_MAPPING[kind](**settings)
    config._attn_implementation = "sdpa"
    model = getattr(transformers, name)(config).to(torch.bfloat16).train()
    fuse(model)
    parameters = {p.untyped_storage().data_ptr() for p in model.parameters()}
    kept = {}  # by storage, so that views count once

    def pack(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in parameters:
            kept[storage.data_ptr()] = storage
        return tensor

    inputs = architecture_truth.inputs_of(model, config, TOKENS)
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        loss = model(**inputs, labels=inputs["input_ids"])
    del loss
    return sum(storage.nbytes() for storage in kept.values())


def main():
    rows = [json.dumps({"config": {"architectures": [name], "model_type": kind, **settings},
                        "tokens": TOKENS, "bytes": kept_bytes(kind, name, settings)})
            for kind, name, settings in CASES]
    versions = {"transformers": transformers.__version__, "torch": torch.__version__.split("+")[0]}
    print(json.dumps(versions)[:-1] + ', "models": [\n' + ",\n".join(rows) + "\n]}")


if __name__ == "__main__":
    main()
