import type { Refusal } from './service.ts'
import type { User, UserFields } from './users-service.ts'

/** 32 signs that nobody confuses, so that 5 random bits choose one. */
const SIGNS = 'abcdefghijkmnpqrstuvwxyz23456789'

/** 100 random bits in groups that can be read out. */
export function generatePassword(): string {
  const signs = Array.from(crypto.getRandomValues(new Uint8Array(20)), byte => SIGNS[byte % 32])
  return signs.join('').replaceAll(/.{5}(?=.)/g, '$&-')
}

export interface UserFormProps {
  /** `undefined` for a new one. */
  readonly user: User | undefined
  /** What differs from `user`. */
  readonly draft: UserFields
  readonly onEdit: (draft: UserFields) => void
  readonly errors: Refusal['errors']
  /** Whether the password of the draft may be seen, because nobody else knows it. */
  readonly isGenerated: boolean
  readonly onGenerate: () => void
  readonly onSave: () => void
}

/** The fields of a user, with what is wrong with each. */
export function UserForm({ user, draft, errors, ...form }: UserFormProps) {
  function edit(field: 'name' | 'email' | 'password', value: string): void {
    const { [field]: _, ...others } = draft
    const isSame = value === (field === 'password' ? '' : (user?.[field] ?? ''))
    form.onEdit(isSame ? others : { ...others, [field]: value })
  }

  const describe = (field: 'name' | 'email' | 'password') => ({
    ...{ id: `user-${field}`, name: field, autocomplete: 'off', spellcheck: false },
    value: draft[field] ?? (field === 'password' ? '' : (user?.[field] ?? '')),
    onInput: (event: { readonly currentTarget: HTMLInputElement }) =>
      edit(field, event.currentTarget.value),
    'aria-describedby': `user-${field}-error`,
    'aria-invalid': errors[field] !== undefined || undefined,
  })
  return (
    <form
      class="stack"
      noValidate
      onSubmit={event => {
        event.preventDefault()
        form.onSave()
      }}
    >
      <label for="user-name">Name</label>
      <input {...describe('name')} />
      <Wrong field="name" {...{ errors }} />
      <label for="user-email">E-mail</label>
      <input {...describe('email')} inputMode="email" />
      <Wrong field="email" {...{ errors }} />
      <label for="user-password">
        {user === undefined ? 'Password (may be left empty)' : 'New password (empty: no change)'}
      </label>
      <div class="fields">
        <input
          {...describe('password')}
          type={(form.isGenerated ? 'text' : 'password') as 'text'}
          autocomplete="new-password"
        />
        <button type="button" onClick={form.onGenerate}>
          Generate
        </button>
      </div>
      <Wrong field="password" {...{ errors }} />
      <Wrong field="" {...{ errors }} />
      <button type="submit">{user === undefined ? 'Create the user' : 'Save'}</button>
    </form>
  )
}

const LABELS: Readonly<Record<string, string>> = {
  name: 'Name ',
  email: 'E-mail ',
  password: 'Password ',
}

function Wrong({ field, errors }: Pick<UserFormProps, 'errors'> & { readonly field: string }) {
  const found = errors[field]
  return (
    <p class="bad" id={`user-${field}-error`} role="alert">
      {found && `${LABELS[field] ?? ''}${found.join('; ')}`}
    </p>
  )
}
