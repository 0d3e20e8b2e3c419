import type {
  IdempotencyClaim,
  NewUser,
  StoredUser,
  UserRepository,
} from '../../src/users/user-repository.ts'
import { takenEmail } from '../../src/users/user-schemas.ts'

/** Creates one user. Throws `email_taken`. */
export async function createUser(
  { create }: Pick<UserRepository, 'create'>,
  user: NewUser,
  claim?: IdempotencyClaim,
): Promise<StoredUser> {
  const [made] = await create([user], claim)
  if (made === undefined) throw takenEmail()
  return made
}

/** The precondition of a write that the user has one of these versions. */
export function among(...versions: readonly string[]): (version: string) => boolean {
  return version => versions.includes(version)
}
