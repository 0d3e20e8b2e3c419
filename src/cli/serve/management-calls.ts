import type { AddressInfo } from 'node:net'
import type { Config } from '../../config.ts'
import type { CallKind } from '../../workers/calls.ts'

/** Where it listens, or lines for the operator. */
export type Opened = { readonly address: AddressInfo } | { readonly problems: readonly string[] }

/** The thread is told to open the management port. */
export const OPEN: CallKind<Config, Opened> = { name: 'open' }

/** The thread is told to close the port. */
export const CLOSE: CallKind<null, void> = { name: 'close' }

/** The thread has logged a line, as JSON with its end of line. */
export const LINE: CallKind<string, void> = { name: 'line' }
