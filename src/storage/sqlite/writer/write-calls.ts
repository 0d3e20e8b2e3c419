import type { ApiKeyUse } from '../../../access/api-key-store.ts'
import type { Ban, BanSelection } from '../../../limits/ban-store.ts'
import type {
  DigestReplacement,
  ExpectedVersions,
  IdempotencyClaim,
  NewUser,
  StoredUser,
  UserChange,
} from '../../../users/user-repository.ts'
import type { CallKind } from '../../../workers/calls.ts'

/** Works as `UserRepository.create`. */
export const CREATE_USER: CallKind<
  { readonly user: NewUser; readonly claim?: SentClaim },
  StoredUser
> = { name: 'create user' }

/** Works as `UserRepository.update`. */
export const UPDATE_USER: CallKind<
  { readonly id: number; readonly change: UserChange; readonly expected?: ExpectedVersions },
  StoredUser | 'digest_changed' | undefined
> = { name: 'update user' }

/** Works as `UserRepository.replaceDigest`. */
export const REPLACE_DIGEST: CallKind<
  { readonly id: number; readonly replacement: DigestReplacement },
  boolean
> = { name: 'replace digest' }

/** Works as `UserRepository.delete`. */
export const DELETE_USER: CallKind<
  { readonly id: number; readonly expected?: ExpectedVersions },
  boolean
> = { name: 'delete user' }

/** Works as `BanStore.save`. */
export const SAVE_BAN: CallKind<Ban, void> = { name: 'save ban' }

/** Works as `BanStore.lift`. */
export const LIFT_BANS: CallKind<BanSelection, readonly Ban[]> = { name: 'lift bans' }

/** Works as `BanStore.revision`. */
export const READ_BAN_REVISION: CallKind<undefined, string> = { name: 'read revision of bans' }

/** Works as `ApiKeyStore.recordUses`. */
export const RECORD_API_KEY_USES: CallKind<readonly SentApiKeyUse[], void> = {
  name: 'record uses of API keys',
}

/** An `ApiKeyUse` as JSON: the hash in Base64. */
export interface SentApiKeyUse extends Omit<ApiKeyUse, 'hash'> {
  readonly hash: string
}

export function toSentUse({ hash, usedAt }: ApiKeyUse): SentApiKeyUse {
  return { hash: hash.toString('base64'), usedAt }
}

export function fromSentUse({ hash, usedAt }: SentApiKeyUse): ApiKeyUse {
  return { hash: Buffer.from(hash, 'base64'), usedAt }
}

/** An `IdempotencyClaim` as JSON: the hash in Base64. */
export interface SentClaim extends Omit<IdempotencyClaim, 'keyHash'> {
  readonly keyHash: string
}

export function toSentClaim({ keyHash, fingerprint }: IdempotencyClaim): SentClaim {
  return { keyHash: keyHash.toString('base64'), fingerprint }
}

export function fromSentClaim({ keyHash, fingerprint }: SentClaim): IdempotencyClaim {
  return { keyHash: Buffer.from(keyHash, 'base64'), fingerprint }
}
