import type {
  Change,
  ChangesQuery,
  CreatedEntry,
  FieldErrors,
  Login,
  NewUser,
  Reason,
  User,
  UserChange,
  UserQuery,
} from './create-client.ts'
import type { components, operations } from './interface.ts'
import type { DocumentedReason } from './reasons.ts'

type Schemas = components['schemas']
type Query<O extends keyof operations> = Present<NonNullable<operations[O]['parameters']['query']>>

/** Without what is the same at run time: absent or `undefined`. */
type Present<T> = { [K in keyof T]-?: Exclude<T[K], undefined> }
type KeysOf<T> = T extends unknown ? keyof T : never
type Member<T, K> = T extends unknown ? (K extends keyof T ? T[K] : never) : never

/** `true` if both have the same values. */
type Same<A, B> = [A] extends [B] ? ([B] extends [A] ? true : false) : false

type Created = Schemas['CreatedUsers']['data'][number]
type Entry = Schemas['ChangePage']['data'][number]
type DocumentedQuery = Omit<Query<'listUsers'>, 'envelope'>

/** Each is `true` as long as the types of the client are those of the document. */
export const agreement: readonly true[] = [
  true satisfies Same<Present<User>, Present<Schemas['User']>>,
  true satisfies Same<Present<NewUser>, Present<Schemas['NewUser']>>,
  true satisfies Same<Present<UserChange>, Present<Schemas['UserChange']>>,
  true satisfies Same<KeysOf<Login>, KeysOf<Schemas['Login'] | Schemas['LoginById']>>,
  true satisfies Same<keyof UserQuery, keyof DocumentedQuery>,
  true satisfies Same<UserQuery['sort'], DocumentedQuery['sort'] | undefined>,
  true satisfies DocumentedQuery extends UserQuery ? true : false,
  true satisfies Same<keyof ChangesQuery, Exclude<keyof Query<'listChanges'>, 'wait'>>,
  true satisfies Same<KeysOf<Change>, keyof Entry>,
  true satisfies Same<Member<Change, 'user'>, Entry['user']>,
  true satisfies Same<KeysOf<CreatedEntry>, KeysOf<Created>>,
  true satisfies Same<CreatedEntry['status'], Created['status']>,
  true satisfies NonNullable<Schemas['Error']['errors']> extends FieldErrors ? true : false,
  true satisfies Same<Reason, DocumentedReason>,
]
