#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records how many bytes torch keeps for the backward pass of small models.

Writes tests/golden/activations.json, which a test compares with the program's formulas. Measured in
bfloat16 with scaled_dot_product_attention and the loss; attention, norms, GELUs and dropout are
replaced by fused ones that keep what kernels of GPUs keep, as the formulas assume them
(docs/model-format.md).

    python3 tools/activation_truth.py > tests/golden/activations.json
"""
import argparse
import json
import sys

import torch
import torch.nn.functional as F
import transformers

import architecture_truth

TOKENS = 256
BASE = dict(vocab_size=512, hidden_size=256, intermediate_size=704, num_hidden_layers=6,
            num_attention_heads=4)
GROUPED = dict(BASE, num_key_value_heads=2)
ENCODER = dict(BASE, intermediate_size=1024)
STACKS = dict(vocab_size=512, d_model=256, encoder_layers=4, decoder_layers=4, encoder_attention_heads=4,
              decoder_attention_heads=4, encoder_ffn_dim=1024, decoder_ffn_dim=1024)
IMAGE = dict(hidden_size=256, num_hidden_layers=6, num_attention_heads=4, intermediate_size=1024, image_size=128,
             patch_size=8)
DINO = dict({key: IMAGE[key] for key in IMAGE if key != "intermediate_size"}, mlp_ratio=4)
T5 = dict(vocab_size=512, d_model=256, d_ff=1024, d_kv=64, num_layers=4, num_decoder_layers=4, num_heads=4)
SPEECH = dict(vocab_size=32, hidden_size=256, num_hidden_layers=6, num_attention_heads=4, intermediate_size=1024,
              mask_time_prob=0.0, layerdrop=0.0)
EXPERTS = dict(head_dim=64, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=128)
LATENT = dict(BASE, q_lora_rank=64, kv_lora_rank=64, qk_nope_head_dim=32, qk_rope_head_dim=32, v_head_dim=32,
              n_routed_experts=4, num_experts_per_tok=2, n_group=1, topk_group=1, n_shared_experts=1,
              moe_intermediate_size=128, first_k_dense_replace=1)
FUSED_IF_ASKED = {"t5gemma"}  # as it is counted, and a note says so
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
    ("electra", "ElectraForMaskedLM", dict(ENCODER, embedding_size=256)),
    ("roberta", "RobertaForMaskedLM", ENCODER),
    ("distilbert", "DistilBertForMaskedLM", dict(vocab_size=512, dim=256, hidden_dim=1024, n_layers=6, n_heads=4)),
    ("modernbert", "ModernBertForMaskedLM", dict(BASE, intermediate_size=384, pad_token_id=0, bos_token_id=1,
     eos_token_id=2, cls_token_id=1, sep_token_id=2)),
    ("bart", "BartForConditionalGeneration", STACKS),
    ("pegasus", "PegasusForConditionalGeneration", dict(STACKS, activation_function="gelu")),
    ("vit", "ViTForImageClassification", dict(IMAGE, num_labels=10)),
    ("dinov2", "Dinov2ForImageClassification", dict({key: IMAGE[key] for key in IMAGE if key != "intermediate_size"},
     mlp_ratio=4, num_labels=10)),
    ("clip_vision_model", "CLIPVisionModel", IMAGE),
    ("siglip_vision_model", "SiglipVisionModel", IMAGE),
    ("clip_text_model", "CLIPTextModel", dict(ENCODER, max_position_embeddings=256, hidden_act="gelu", eos_token_id=2,
     bos_token_id=1)),
    ("wav2vec2", "Wav2Vec2ForCTC", SPEECH),
    ("wav2vec2", "Wav2Vec2ForCTC", dict(SPEECH, feat_extract_norm="layer", conv_bias=True, do_stable_layer_norm=True)),
    ("hubert", "HubertForCTC", SPEECH),
    ("whisper", "WhisperForConditionalGeneration", dict(STACKS, max_source_positions=256, max_target_positions=256,
     num_mel_bins=80, pad_token_id=0, bos_token_id=0, eos_token_id=0, decoder_start_token_id=0,
     begin_suppress_tokens=[])),
    ("biogpt", "BioGptForCausalLM", ENCODER),
    # Without fused attention: scores count.
    ("bloom", "BloomForCausalLM", dict(vocab_size=512, hidden_size=256, n_layer=6, n_head=4)),
    ("bloom", "BloomForCausalLM", dict(vocab_size=512, hidden_size=256, n_layer=6, n_head=4, attention_dropout=0.1,
     hidden_dropout=0.1)),
    ("mpt", "MptForCausalLM", dict(vocab_size=512, d_model=256, n_layers=6, n_heads=4)),
    ("xglm", "XGLMForCausalLM", dict(vocab_size=512, d_model=256, ffn_dim=1024, num_layers=6, attention_heads=4)),
    ("openai-gpt", "OpenAIGPTLMHeadModel", dict(vocab_size=512, n_embd=256, n_layer=6, n_head=4,
     afn="silu")),
    ("mpnet", "MPNetForMaskedLM", ENCODER),
    ("megatron-bert", "MegatronBertForMaskedLM", ENCODER),
    ("deberta-v2", "DebertaV2ForMaskedLM", dict(ENCODER, type_vocab_size=0)),
    ("deberta-v2", "DebertaV2ForMaskedLM", dict(ENCODER, relative_attention=True, position_buckets=32,
     norm_rel_ebd="layer_norm", share_att_key=True, pos_att_type="p2c|c2p", position_biased_input=False,
     type_vocab_size=0)),
    ("mvp", "MvpForConditionalGeneration", STACKS),
    ("longformer", "LongformerForMaskedLM", dict(ENCODER, attention_window=64, max_position_embeddings=300, pad_token_id=1)),
    ("led", "LEDForConditionalGeneration", dict(STACKS, attention_window=64, pad_token_id=1)),
    ("bigbird_pegasus", "BigBirdPegasusForConditionalGeneration", dict(STACKS, attention_type="original_full",
     activation_function="gelu", use_bias=True)),
    ("nllb-moe", "NllbMoeForConditionalGeneration", dict(STACKS, num_experts=2, moe_token_dropout=0.0,
     encoder_sparse_step=2, decoder_sparse_step=2)),
    ("fsmt", "FSMTForConditionalGeneration", dict({key: STACKS[key] for key in STACKS if key != "vocab_size"},
     src_vocab_size=512, tgt_vocab_size=512)),
    # Of the newest rows.
    ("bitnet", "BitNetForCausalLM", dict(GROUPED)),
    ("hyperclovax", "HyperCLOVAXForCausalLM", dict(GROUPED, head_dim=64)),
    ("cwm", "CwmForCausalLM", dict(GROUPED, head_dim=64)),
    ("glm4v_text", "Glm4vTextModel", GROUPED),
    ("iquestcoder", "LlamaForCausalLM", dict(GROUPED, head_dim=64)),
    ("ernie", "ErnieForMaskedLM", ENCODER),
    ("layoutlm", "LayoutLMForMaskedLM", ENCODER),
    ("roberta-prelayernorm", "RobertaPreLayerNormForMaskedLM", ENCODER),
    ("xlm-roberta-xl", "XLMRobertaXLForMaskedLM", ENCODER),
    ("sarvam_mla", "DeepseekV3ForCausalLM", dict(LATENT)),
    ("deepseek_v3", "DeepseekV3ForCausalLM", dict(LATENT)),
    ("axk1", "AXK1ForCausalLM", dict(LATENT, n_group=1, topk_group=1)),
    ("hy_v3", "HYV3ForCausalLM", dict(GROUPED, **EXPERTS)),
    ("glm4_moe", "Glm4MoeForCausalLM", dict(GROUPED, head_dim=64, n_routed_experts=4, num_experts_per_tok=2,
     n_shared_experts=1, moe_intermediate_size=128, first_k_dense_replace=1)),
    ("solar_open", "SolarOpenForCausalLM", dict({key: GROUPED[key] for key in GROUPED if key != "intermediate_size"},
     head_dim=64, n_routed_experts=4, num_experts_per_tok=2, n_shared_experts=1, moe_intermediate_size=128)),
    ("albert", "AlbertForMaskedLM", dict(ENCODER, embedding_size=128)),
    ("esm", "EsmForMaskedLM", dict(ENCODER, vocab_size=33, pad_token_id=1, mask_token_id=32,
     position_embedding_type="rotary", emb_layer_norm_before=False, token_dropout=False)),
    ("big_bird", "BigBirdForMaskedLM", dict(ENCODER, attention_type="original_full")),
    ("kolibri1", "Kolibri1ForCausalLM", dict({key: GROUPED[key] for key in GROUPED if key != "intermediate_size"},
     head_dim=64, num_local_experts=4, num_experts_per_tok=2, moe_intermediate_size=128,
     shared_expert_intermediate_size=128)),
    ("granitemoeshared", "GraniteMoeSharedForCausalLM", dict(GROUPED, num_local_experts=4, num_experts_per_tok=2,
     shared_intermediate_size=256)),
    ("minimax_m2", "MiniMaxM2ForCausalLM", dict(GROUPED, head_dim=64, num_local_experts=4, num_experts_per_tok=2)),
    ("qwen3_moe", "Qwen3MoeForCausalLM", dict(GROUPED, head_dim=64, moe_intermediate_size=128, num_experts=4,
     num_experts_per_tok=2)),
    ("glm4v_moe_text", "Glm4vMoeTextModel", dict(GROUPED, head_dim=128, n_routed_experts=4, num_experts_per_tok=2,
     n_shared_experts=1, moe_intermediate_size=128, first_k_dense_replace=1)),
    ("eurobert", "EuroBertForMaskedLM", dict(GROUPED, pad_token_id=0)),
    ("nomic_bert", "NomicBertForMaskedLM", ENCODER),
    ("modernbert-decoder", "ModernBertDecoderForCausalLM", dict(BASE, pad_token_id=0, bos_token_id=1, eos_token_id=2,
     cls_token_id=1, sep_token_id=2)),
    ("deberta", "DebertaForMaskedLM", dict(ENCODER, relative_attention=True, pos_att_type=["c2p", "p2c"])),
    ("afmoe", "AfmoeForCausalLM", dict(GROUPED, head_dim=64, num_experts=4, num_experts_per_tok=2,
     moe_intermediate_size=128, num_shared_experts=1)),
    ("aria_text", "AriaTextForCausalLM", dict(GROUPED, intermediate_size=128, moe_num_experts=4, moe_topk=2,
     pad_token_id=0)),
    ("hunyuan_v1_moe", "HunYuanMoEV1ForCausalLM", dict(GROUPED, intermediate_size=128, head_dim=64, num_experts=4,
     moe_topk=2)),
    ("dbrx", "DbrxForCausalLM", dict(vocab_size=512, d_model=256, n_heads=4, n_layers=6, max_seq_len=512,
     attn_config=dict(kv_n_heads=2, rope_theta=1e4, clip_qkv=8), ffn_config=dict(ffn_hidden_size=128,
     moe_num_experts=4, moe_top_k=2))),
    ("dinov2_with_registers", "Dinov2WithRegistersForImageClassification", dict(DINO, num_register_tokens=4, num_labels=10)),
    ("dinov2_with_registers", "Dinov2WithRegistersForImageClassification", dict(DINO, use_swiglu_ffn=True, num_labels=10)),
    ("vit_msn", "ViTMSNForImageClassification", dict(IMAGE, num_labels=10)),
    ("ijepa", "IJepaForImageClassification", dict(IMAGE, num_labels=10)),
    ("dinov3_vit", "DINOv3ViTModel", dict(IMAGE, num_register_tokens=4)),
    ("dinov3_vit", "DINOv3ViTModel", dict(IMAGE, use_gated_mlp=True)),
    ("vit_mae", "ViTMAEForPreTraining", dict(IMAGE, decoder_hidden_size=128, decoder_num_hidden_layers=2,
     decoder_num_attention_heads=4, decoder_intermediate_size=512)),
    ("beit", "BeitForImageClassification", dict(IMAGE, use_relative_position_bias=True, num_labels=10)),
    ("clip", "CLIPModel", dict(text_config=dict(ENCODER, max_position_embeddings=256, hidden_act="gelu", eos_token_id=2,
     bos_token_id=1), vision_config=dict(IMAGE, hidden_act="gelu"))),
    ("siglip", "SiglipModel", dict(text_config=dict(ENCODER, max_position_embeddings=256), vision_config=IMAGE)),
    ("switch_transformers", "SwitchTransformersForConditionalGeneration", dict(T5, num_experts=4,
     expert_capacity=256, num_sparse_encoder_layers=2, num_sparse_decoder_layers=2)),
    ("longt5", "LongT5ForConditionalGeneration", dict(T5, local_radius=31)),
    ("longt5", "LongT5ForConditionalGeneration", dict(T5, local_radius=31, encoder_attention_type="transient-global",
     feed_forward_proj="gated-gelu")),
    ("t5gemma", "T5GemmaForConditionalGeneration", dict(encoder=dict(GROUPED, head_dim=64,
     attn_logit_softcapping=None), decoder=dict(GROUPED, head_dim=64, attn_logit_softcapping=None))),
    ("swin", "SwinForImageClassification", dict(image_size=128, embed_dim=64, depths=[2, 2, 4], num_heads=[2, 4, 8],
     window_size=8, num_labels=10)),
    ("mllama_text_model", "MllamaForCausalLM", dict(GROUPED, pad_token_id=0, cross_attention_layers=[3])),
    ("gemma4_text", "Gemma4ForCausalLM", dict(GROUPED, head_dim=64, global_head_dim=128, hidden_size_per_layer_input=32,
     vocab_size_per_layer_input=512, num_kv_shared_layers=0)),
    ("gemma4_text", "Gemma4ForCausalLM", dict(GROUPED, head_dim=64, global_head_dim=128, hidden_size_per_layer_input=0,
     attention_k_eq_v=True, num_global_key_value_heads=1, enable_moe_block=True, num_experts=4, top_k_experts=2,
     moe_intermediate_size=128)),
    ("gemma4_text", "Gemma4ForCausalLM", dict(GROUPED, head_dim=64, global_head_dim=64, hidden_size_per_layer_input=32,
     layer_types=["sliding_attention", "full_attention"] * 3, vocab_size_per_layer_input=512, num_kv_shared_layers=2,
     use_double_wide_mlp=True)),
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


class FusedAttention(torch.autograd.Function):
    """What flash attention keeps: queries, keys, values, its output and a number per row; what is
    added to scores, if each sample has its own."""

    @staticmethod
    def forward(ctx, query, key, value, causal, bias):
        heads = query.shape[1] // key.shape[1]
        wide = lambda x: x.float().repeat_interleave(heads, 1)
        scores = query.float() @ wide(key).transpose(-1, -2) / query.shape[-1] ** 0.5
        if causal:
            scores = scores + torch.full(scores.shape[-2:], float("-inf")).triu(1)
        out = (scores.softmax(-1) @ wide(value)).to(query.dtype)
        out = out.transpose(1, 2).contiguous().transpose(1, 2)  # as its output lies in memory
        ctx.save_for_backward(query, key, value, out, scores.logsumexp(-1), bias)
        return out

    @staticmethod
    def backward(ctx, grad):
        return grad, None, None, None, None


def fused_attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, **_):
    own = attn_mask is not None and attn_mask.requires_grad and len(attn_mask) > 1
    return FusedAttention.apply(query, key, value, is_causal, attn_mask if own else None)


def fused_dropout(x, p=0.5, training=True, inplace=False):
    return torch.native_dropout(x, p, training)[0] if training and p > 0 else x


def fuse(model):
    F.scaled_dot_product_attention = fused_attention
    F.dropout = fused_dropout
    code = sys.modules[type(model).__module__]
    if hasattr(code, "gelu"):
        code.gelu = F.gelu
    for module in model.modules():
        name = type(module).__name__
        of_t5 = name.endswith("LayerNorm") and hasattr(module, "variance_epsilon")
        if (name.endswith("RMSNorm") or of_t5 or name == "CohereLayerNorm") and hasattr(module, "weight"):
            module.forward = lambda x, m=module: FusedNorm.apply(x, m.weight, 1e-6)
        if "XIELU" in name:
            module.forward = F.silu  # keeps its input, as a fused kernel does
        if "GELU" in name:
            module.forward = lambda x: F.gelu(x, approximate="tanh")


def labels_of(name, inputs):
    if "Classification" in name:
        return dict(labels=torch.zeros(1, dtype=torch.long))
    if name.endswith("ForCTC"):
        return dict(labels=torch.ones(1, 8, dtype=torch.long))
    if name.endswith("Model") and "LMHead" not in name:
        return {}
    return dict(labels=inputs.get("decoder_input_ids", inputs.get("input_ids")))


def kept_bytes(kind, name, settings):
    config = transformers.CONFIG_MAPPING[kind](**settings)
    model_class = getattr(transformers, name)
    for base in model_class.__mro__ if kind in FUSED_IF_ASKED else ():
        if "_supports_sdpa" in vars(base):
            base._supports_sdpa = True
    config._attn_implementation = "sdpa" if getattr(model_class, "_supports_sdpa", False) else "eager"
    model = getattr(transformers, name)(config).to(torch.bfloat16).train()
    fuse(model)
    parameters = {p.untyped_storage().data_ptr() for p in [*model.parameters(), *model.buffers()]}
    kept = {}  # by storage, so that views count once

    def pack(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in parameters:
            kept[storage.data_ptr()] = storage
        return tensor

    inputs = {key: value.to(torch.bfloat16) if torch.is_tensor(value) and value.is_floating_point() else value
              for key, value in architecture_truth.inputs_of(model, config, TOKENS).items()}
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        loss = model(**inputs, **labels_of(name, inputs))
    del loss
    return sum(storage.nbytes() for storage in kept.values())


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="")
    only = [word for word in parser.parse_args().only.split(",") if word]
    rows = [json.dumps({"config": {"architectures": [name], "model_type": kind, **settings},
                        "tokens": TOKENS, "bytes": kept_bytes(kind, name, settings)})
            for kind, name, settings in CASES if not only or kind in only]
    versions = {"transformers": transformers.__version__, "torch": torch.__version__.split("+")[0]}
    print(json.dumps(versions)[:-1] + ', "models": [\n' + ",\n".join(rows) + "\n]}")


if __name__ == "__main__":
    main()
