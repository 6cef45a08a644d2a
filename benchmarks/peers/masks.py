"""Attention in which a query sees the keys from some place on, up to its own: by flex_attention, which
leaves out what no query of a block sees, or with the mask of all queries and keys."""

import torch
import torch.nn.functional as F
from torch.nn.attention.flex_attention import BlockMask, flex_attention

from sizes import BLOCK, DENSE, FLEX


def document_starts(tokens, eos):
    """For every position of tokens [T] the position where its document starts, int64 [T]."""
    position = torch.arange(len(tokens), device=tokens.device)
    return torch.where(tokens == eos, position, 0).cummax(0).values


def block_lists(first):
    """Which blocks of keys the blocks of queries read: (partly, wholly), bool [n, n] each, where
    query t sees the keys first[t] to t.

    `first` never falls, so a block's first query looks back farthest and its last query least far:
    the blocks that some query sees and those that all of them see are two intervals that end at the
    diagonal."""
    ends = first.view(-1, BLOCK)
    index = torch.arange(len(ends), device=first.device)
    query, key = index[:, None], index[None, :]
    seen = (key >= ends[:, :1] // BLOCK) & (key <= query)
    whole = seen & (key * BLOCK >= ends[:, -1:]) & (key < query)
    return seen & ~whole, whole


def ordered(blocks):
    """A bool [n, n] as flex_attention takes it: (how many in each row, their columns first)."""
    columns = blocks.int().argsort(dim=-1, descending=True, stable=True)
    return blocks.sum(-1, dtype=torch.int32)[None, None], columns.int()[None, None]


def mask_rule(first):
    """flex_attention's rule inside of a block that is read in part."""
    return lambda batch, head, q, k: (k <= q) & (k >= first[q])


def heads_first(*parts):
    """[T, H, Dh] each as [1, H, T, Dh]."""
    return (x.transpose(0, 1)[None] for x in parts)


class FlexAttention:
    """By flex_attention; T is a multiple of BLOCK."""

    def __init__(self, first):
        partly, wholly = block_lists(first)
        self.mask = BlockMask.from_kv_blocks(
            *ordered(partly), *ordered(wholly), BLOCK_SIZE=BLOCK, mask_mod=mask_rule(first)
        )

    def attend(self, q, k, v, scale=None):
        """Of q [T, H, Dh] and k, v [T, Hk, Dh]; returns [T, H, Dh]. Without a scale it is 1/√Dh."""
        shared = q.size(1) != k.size(1)
        q, k, v = heads_first(q, k, v)
        y = flex_attention(q, k, v, block_mask=self.mask, scale=scale, enable_gqa=shared)
        return y[0].transpose(0, 1)


class DenseAttention:
    """By scaled_dot_product_attention."""

    def __init__(self, first):
        place = torch.arange(len(first), device=first.device)
        self.visible = (place <= place[:, None]) & (place >= first[:, None])

    def attend(self, q, k, v, scale=None):
        """As FlexAttention."""
        shared = q.size(1) != k.size(1)
        q, k, v = heads_first(q, k, v)
        y = F.scaled_dot_product_attention(
            *(q, k, v), attn_mask=self.visible, scale=scale, enable_gqa=shared
        )
        return y[0].transpose(0, 1)


ATTENTION = {FLEX: FlexAttention, DENSE: DenseAttention}
