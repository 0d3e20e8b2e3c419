import type { BanOrder } from '../../limits/ban-orders.ts'
import type { Ban, BanPage, BanQuery, BanSelection } from '../../limits/ban-store.ts'
import type { CallKind } from '../../workers/calls.ts'

/** The other side answers when its event loop has a turn: one that is stopped does not. */
export const GREET: CallKind<null, void> = { name: 'greet' }

// Both the thread of the management port asks these, and the first process, which has a worker do them.
export const LIST_BANS: CallKind<BanQuery, BanPage> = { name: 'list bans' }
export const ADD_BAN: CallKind<BanOrder, Ban> = { name: 'add ban' }
export const LIFT_BANS: CallKind<BanSelection, number> = { name: 'lift bans' }
